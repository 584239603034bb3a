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

// Files that are mapped privately: programs and libraries, their constants and data; and the first heap and stack.
bool is_worth_locking(const std::string& line, const char* permissions) {
  if (permissions[0] != 'r' || permissions[3] != 'p') return false;
  return line.find(" /") != std::string::npos || line.find("[heap]") != std::string::npos ||
         line.find("[stack]") != std::string::npos;
}

// As they are touched: what is never used takes no memory. What grows later is not locked.
void lock_program() {
  if (!may_lock_any_memory()) {
    spdlog::info("the program's code can be reclaimed under pressure: CAP_IPC_LOCK would let it be locked");
    return;
  }
  std::uint64_t refused = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char permissions[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, permissions) != 3) continue;
    if (!is_worth_locking(line, permissions)) continue;
    if (!lock_when_touched(begin, end).has_value()) refused += end - begin;
  }
  if (refused > 0) spdlog::info("{} of the program could not be locked", format_bytes(refused));
}

}  // namespace

void protect_from_pressure() {
  lower_oom_score();
  lock_program();
}

}  // namespace penstock
