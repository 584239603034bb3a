// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/usage/amd_source.hpp"
#include "dataplane/device/usage/nvml_source.hpp"
#include "dataplane/device/usage/usage_report.hpp"
#include "service/cli/doctor.hpp"

namespace penstock {
namespace {

// A tool that is well answers its first question within a second.
constexpr auto first_reading_limit = std::chrono::seconds(5);
constexpr int look_again_ms = 10;

UsageSnapshot first_reading(GpuVendor vendor) {
  std::unique_ptr<UsageSource> source;
  if (vendor == GpuVendor::cuda)
    source = std::make_unique<NvmlSource>();
  else
    source = std::make_unique<AmdSource>();
  const UsageWatch watch(std::move(source), {.stall = first_reading_limit});
  const Nanoseconds by = monotonic_now() + first_reading_limit;
  UsageSnapshot snapshot = watch.newest(monotonic_now());
  while (snapshot.readings == 0 && monotonic_now() <= by) {
    ::poll(nullptr, 0, look_again_ms);
    snapshot = watch.newest(monotonic_now());
  }
  return snapshot;
}

Check usage_check(const std::string& id, std::string_view state, const std::optional<std::uint64_t>& used,
                  const std::optional<std::uint64_t>& foreign) {
  Check check{.name = id + " usage", .detail = "", .remedy = ""};
  if (state == "current") {
    check.detail = fmt::format("{} used", used ? format_bytes(*used) : "?");
    if (foreign) check.detail += fmt::format(", {} by others", format_bytes(*foreign));
    return check;
  }
  check.state = "degraded";
  check.detail = fmt::format("what others use is not known: {}", state);
  if (state == "absent")
    check.remedy = "install the vendor's management library (libnvidia-ml.so.1, libamd_smi.so)";
  if (state == "stalled")
    check.remedy = "its calls hang in the driver: look for Xid messages in the kernel's log";
  if (state == "lost") check.remedy = "the driver says that the GPU has gone or needs a reset";
  return check;
}

}  // namespace

std::vector<Check> check_service_usage(const Json& devices) {
  std::vector<Check> checks;
  for (const Json& device : devices) {
    const Json& usage = object_of(device, "usage");
    if (usage.empty()) continue;
    checks.push_back(usage_check(text_of(device, "id"), text_of(usage, "state"),
                                 find_number(usage, "used_bytes"), find_number(device, "foreign_bytes")));
  }
  return checks;
}

std::vector<Check> check_usage(GpuVendor vendor, const std::vector<GpuDescription>& gpus) {
  std::vector<Check> checks;
  if (gpus.empty()) return checks;
  const UsageSnapshot snapshot = first_reading(vendor);
  for (const GpuDescription& gpu : gpus) {
    std::optional<HostMemory> host;
    if (gpu.shares_host_memory) {
      if (const auto memory = read_host_memory("/proc")) host = *memory;
    }
    const GpuUsageStats stats = report_usage(snapshot, gpu.identity, {}, host);
    checks.push_back(
        usage_check(gpu.identity.id, host ? "current" : stats.state, stats.used_bytes, std::nullopt));
  }
  return checks;
}

}  // namespace penstock
