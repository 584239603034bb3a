// SPDX-License-Identifier: Apache-2.0
#include "service/self_protection.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "dataplane/base/lock_memory.hpp"
#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

constexpr const char* score_file = "/proc/self/oom_score_adj";
// All clients need what this process holds; yet one that leaks must not win over the whole machine.
constexpr std::string_view score = "-500";

void lower_oom_score() {
  int chosen = 0;
  std::ifstream before(score_file);
  before >> chosen;
  if (chosen != 0) return;
  const UniqueFd file(::open(score_file, O_WRONLY | O_CLOEXEC));
  if (file && ::write(file.get(), score.data(), score.size()) == static_cast<ssize_t>(score.size())) return;
  spdlog::info("the OOM score stays 0: {}; OOMScoreAdjust= of the unit sets it", std::strerror(errno));
}

// Beyond this it is no stack and no heap of a thread, but something that is reserved.
constexpr std::uint64_t unnamed_bytes_max = 1 * gib;

// Files that are mapped privately: programs and libraries, their constants and data; the first heap and stack; and what
// has no name: the other threads' stacks and heaps.
bool is_worth_locking(const std::string& line, const char* permissions, std::uint64_t bytes) {
  if (permissions[0] != 'r' || permissions[3] != 'p') return false;
  const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
  if (has(" /") || has("[heap]") || has("[stack]")) return true;
  return permissions[1] == 'w' && !has("[") && bytes <= unnamed_bytes_max;
}

// As they are touched: what is never used takes no memory. What grows later is not locked.
void lock_program(ProtectionReport& report) {
  prefault_stack();
  if (!may_lock_any_memory()) {
    report.why = "CAP_IPC_LOCK would let the program's code, stacks and heaps be locked";
    spdlog::info("the program's code and stacks can be reclaimed under pressure: {}", report.why);
    return;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char permissions[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, permissions) != 3) continue;
    if (!is_worth_locking(line, permissions, end - begin)) continue;
    (lock_when_touched(begin, end) ? report.locked_bytes : report.refused_bytes) += end - begin;
  }
  if (report.refused_bytes == 0) return;
  report.why = fmt::format("{} of the program could not be locked", format_bytes(report.refused_bytes));
  spdlog::info("{}", report.why);
}

}  // namespace

ProtectionReport protect_from_pressure() {
  ProtectionReport report;
  lower_oom_score();
  lock_program(report);
  std::ifstream score_now(score_file);
  score_now >> report.oom_score;
  return report;
}

}  // namespace penstock
