// SPDX-License-Identifier: Apache-2.0
#include "service/kernel_setup.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "bpf/kernel_probes.hpp"
#include "bpf/remedy.hpp"

namespace penstock {
namespace {

// The probes take up to 64 of them.
constexpr std::uint64_t descriptors_min = 512;

std::string too_few(std::uint64_t descriptors) {
  return fmt::format("the process may have {} descriptors open, and they are left to clients", descriptors);
}

std::string remedy_of(KernelProbes& opened, const std::vector<ProbeReport>& reports) {
  const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return probe_remedy(root ? read_kernel_facts(root.get()) : KernelFacts{}, opened.level(), reports);
}

}  // namespace

Outcome<std::unique_ptr<KernelWatch>> start_kernel_watch(const Config& config, std::uint64_t descriptors,
                                                         const EventFd& alarm) {
  const bool wanted = config.ebpf != ProbeMode::off;
  const bool affordable = descriptors >= descriptors_min;
  std::unique_ptr<KernelProbes> opened =
      KernelProbes::open({.use_bpf = wanted && affordable,
                          .why_not = wanted ? too_few(descriptors) : "turned off",
                          .programs = ProgramOptions{.time_faults = config.time_faults}});
  const std::vector<ProbeReport> reports = opened->report();
  const std::string remedy = affordable ? remedy_of(*opened, reports)
                                        : fmt::format("raise LimitNOFILE= to {} or more", descriptors_min);
  if (config.ebpf == ProbeMode::required && opened->level() < ProbeLevel::traced) {
    return fail(FailureKind::configuration,
                fmt::format("probes.ebpf is \"required\", and the page cache can't be traced: {}",
                            reports.front().why),
                remedy);
  }
  const char* const level = probe_level_name(opened->level());
  const std::vector<std::string> warnings = opened->warnings();
  if (config.ebpf == ProbeMode::off) {
    spdlog::info("probe level {}: probes.ebpf is \"off\"", level);
  } else {
    const auto attached = std::ranges::count_if(reports, &ProbeReport::attached);
    spdlog::info("probe level {}: {} of {} probes are attached", level, attached, reports.size());
    for (const std::string& warning : warnings) spdlog::warn("{}", warning);
    if (!remedy.empty()) spdlog::warn("to have the page cache traced: {}", remedy);
  }
  return std::make_unique<KernelWatch>(
      std::move(opened), KernelWatch::Options{.remedy = remedy, .alarm = [&alarm] { alarm.signal(); }});
}

}  // namespace penstock
