// SPDX-License-Identifier: Apache-2.0
// gpu_experiments: runs the experiments on this machine's GPU, each in a process of its own, and prints one line of JSON as
// each ends. An experiment has --limit seconds, all together --budget: what has no time left is skipped by name.
//
//   gpu_experiments [--vendor cuda|hip] [--small] [--limit SECONDS] [--budget SECONDS] [ID...]
//
// Exit: 0 all as expected or skipped, 1 an experiment contradicts what the service relies on, 2 wrong usage.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"

namespace penstock::gpu_check {
namespace {

constexpr Experiment experiments[] = {
    {"E1", "context_free_owner", context_free_owner},
    {"E2", "read_only_mapping", read_only_mapping},
    {"E3", "owner_killed", owner_killed},
    {"E4", "descriptor_kept_by_third", descriptor_kept_by_third},
    {"E5", "ghost_bytes", ghost_bytes},
    {"E6", "call_costs", call_costs},
    {"E7", "unmap_under_kernel", unmap_under_kernel},
    {"E8", "descriptor_limit", descriptor_limit},
    {"E9", "mapping_rules", mapping_rules},
    {"E10", "imported_twice", imported_twice},
    {"E11", "exclusive_process", exclusive_process},
    {"E12", "unreceived_descriptor", unreceived_descriptor},
    {"E13", "fresh_frame_contents", fresh_frame_contents},
    {"load", "load_rate", load_rate},
    {"fault", "fault_latency", fault_latency},
    {"kernels", "kernels_equal_reference", kernels_equal_reference},
};

struct Options {
  int limit_s = 60;
  int budget_s = 400;
  std::vector<std::string_view> wanted;
};

std::optional<Options> parse(int count, char** arguments) {
  Options options;
  for (int at = 1; at < count; ++at) {
    const std::string_view argument = arguments[at];
    const bool has_value = at + 1 < count;
    if (argument == "--small") {
      scale() = {.vendor = scale().vendor,
                 .is_small = true,
                 .frame_bytes = 2ull << 20,
                 .frames = 4,
                 .held = 4,
                 .repeats = 3};
    } else if (argument == "--vendor" && has_value) {
      scale().vendor = std::string_view(arguments[++at]) == "hip" ? GpuVendor::hip : GpuVendor::cuda;
    } else if (argument == "--limit" && has_value) {
      options.limit_s = std::atoi(arguments[++at]);
    } else if (argument == "--budget" && has_value) {
      options.budget_s = std::atoi(arguments[++at]);
    } else if (!argument.starts_with("-")) {
      options.wanted.push_back(argument);
    } else {
      return std::nullopt;
    }
  }
  return options;
}

bool is_wanted(const Options& options, std::string_view id) {
  bool found = options.wanted.empty();
  for (const std::string_view wanted : options.wanted) found = found || wanted == id;
  return found;
}

[[noreturn]] void run_here(const Experiment& experiment, int answer) {
  Report report;
  const double seconds = seconds_of([&] { experiment.run(report); });
  const std::string json = report.to_json(experiment.id, experiment.name, seconds);
  const bool written = ::write(answer, json.data(), json.size()) == static_cast<ssize_t>(json.size());
  // Without the end of the libraries' own, which may hang in a broken driver.
  ::_exit(!written ? 3 : report.state() == State::contradicts ? 1 : 0);
}

using Clock = std::chrono::steady_clock;

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

// All that comes until the end of the pipe or the limit; empty in the latter case.
std::string answer_of(int from, int limit_s) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(limit_s);
  std::string answer;
  std::array<char, 65536> part{};
  pollfd waiting{.fd = from, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, milliseconds_until(end)) > 0) {
    const ssize_t size = ::read(from, part.data(), part.size());
    if (size <= 0) return answer;
    answer.append(part.data(), static_cast<std::size_t>(size));
  }
  return {};
}

std::string run_apart(const Experiment& experiment, int limit_s, bool& all_well) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) std::exit(3);
  std::string answer;
  int status = 0;
  const double seconds = seconds_of([&] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ends[0]);
      run_here(experiment, ends[1]);
    }
    ::close(ends[1]);
    answer = answer_of(ends[0], limit_s);
    ::close(ends[0]);
    if (answer.empty()) ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  });
  const bool ended = !answer.empty() && WIFEXITED(status) && WEXITSTATUS(status) <= 1;
  all_well = all_well && ended && WEXITSTATUS(status) == 0;
  if (ended) return answer;
  Report report;
  report.expect(false, seconds >= limit_s ? fmt::format("it ends within {} s", limit_s)
                                          : fmt::format("its process ends well (wait status {:#x})", status));
  return report.to_json(experiment.id, experiment.name, seconds);
}

std::string skip_for_lack_of_time(const Experiment& experiment, const Options& options) {
  Report report;
  report.skip(fmt::format("requires more time: the {} s of all experiments are over", options.budget_s));
  return report.to_json(experiment.id, experiment.name, 0);
}

int run_all(const Options& options) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(options.budget_s);
  bool all_well = true;
  for (const Experiment& experiment : experiments) {
    if (!is_wanted(options, experiment.id)) continue;
    const int left_s = milliseconds_until(end) / 1000;
    const std::string json = left_s == 0 ? skip_for_lack_of_time(experiment, options)
                                         : run_apart(experiment, std::min(options.limit_s, left_s), all_well);
    std::puts(json.c_str());
    // Whoever ends this program has what is there by then.
    std::fflush(stdout);
  }
  return all_well ? 0 : 1;
}

}  // namespace
}  // namespace penstock::gpu_check

int main(int count, char** arguments) {
  const auto options = penstock::gpu_check::parse(count, arguments);
  if (options) return penstock::gpu_check::run_all(*options);
  std::fputs(
      "usage: gpu_experiments [--vendor cuda|hip] [--small] [--limit SECONDS] [--budget SECONDS] [ID...]\n",
      stderr);
  return 2;
}
