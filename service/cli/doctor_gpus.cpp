// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_frame_owner.hpp"
#include "dataplane/device/gpu/self_test.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "service/cli/doctor.hpp"

namespace penstock {
namespace {

// A driver that is well takes a second or two to start on a machine with many GPUs.
constexpr auto driver_limit = std::chrono::seconds(20);

const char* state_of(VendorState state) {
  switch (state) {
    case VendorState::absent:
    case VendorState::without_device: return "missing";
    case VendorState::broken:
    case VendorState::usable_without_vmm: return "degraded";
    case VendorState::usable: break;
  }
  return "ok";
}

Check check_vendor(const VendorReport& report, Json& drivers) {
  drivers.push_back({{"vendor", gpu_vendor_name(report.vendor)},
                     {"state", vendor_state_name(report.state)},
                     {"version", report.version},
                     {"library", report.library},
                     {"detail", report.detail}});
  std::string detail{vendor_state_name(report.state)};
  if (!report.version.empty()) detail += " " + report.version;
  if (!report.detail.empty()) detail += ": " + report.detail;
  return {.name = report.vendor == GpuVendor::cuda ? "CUDA driver" : "HIP driver",
          .state = state_of(report.state),
          .detail = std::move(detail),
          .remedy = report.remedy};
}

Json as_json(const SelfTestReport& test) {
  Json steps = Json::array();
  for (const SelfTestStep& step : test.steps) {
    steps.push_back({{"name", step.name}, {"call", step.code.call}, {"code", step.code.native}});
  }
  return {{"passed", test.passed},
          {"problem", test.problem},
          {"cannot_share", test.cannot_share},
          {"frames_come_zeroed", test.was_zero},
          {"steps", std::move(steps)}};
}

std::string remedy_of(const SelfTestReport& test) {
  constexpr std::int32_t not_permitted = 800;
  if (test.lacked_memory) return "free some of its memory";
  if (!test.cannot_share) return "update the driver";
  if (test.steps.back().code.native != not_permitted) return whole_copies;
  return fmt::format(
      "{}; a MIG slice or confidential computing may forbid sharing, or a container without the GPU's device "
      "files (/dev/nvidiactl, /dev/nvidia-uvm): there, use the whole GPU",
      whole_copies);
}

Check check_gpu(const std::shared_ptr<GpuDriver>& driver, Json& gpus) {
  const GpuDescription& gpu = driver->description();
  Json entry = {{"id", gpu.identity.id},
                {"kind", gpu_vendor_name(gpu.identity.vendor)},
                {"name", gpu.identity.name},
                {"uuid", uuid_text(gpu.identity)},
                {"pci", to_text(gpu.identity.pci)},
                {"total_bytes", gpu.total_bytes},
                {"shares_host_memory", gpu.shares_host_memory},
                {"has_vmm", gpu.has_vmm},
                {"architecture", gpu.architecture},
                {"experimental", gpu.is_experimental}};
  Check check{.name = gpu.identity.id, .detail = "", .remedy = ""};
  if (!gpu.has_vmm) {
    check.state = "degraded";
    check.detail = fmt::format("usable without sharing: {}: {}", gpu.identity.name, gpu.why_no_vmm);
    check.remedy = whole_copies;
  } else {
    const SelfTestReport test = run_self_test_within(driver, default_gpu_frame_bytes(gpu), driver_limit);
    entry["free_bytes"] = test.memory.free_bytes;
    entry["self_test"] = as_json(test);
    check.detail = fmt::format("{} at {}, {} of {} free, self-test {}", gpu.identity.name,
                               to_text(gpu.identity.pci), format_bytes(test.memory.free_bytes),
                               format_bytes(gpu.total_bytes), test.passed ? "passed" : test.problem);
    if (test.cannot_share) check.detail = "usable without sharing: " + check.detail;
    if (!test.passed) {
      check.state = "degraded";
      check.remedy = remedy_of(test);
    }
  }
  if (gpu.is_experimental)
    check.detail += fmt::format(", experimental: nobody has told that sharing works on {}", gpu.architecture);
  gpus.push_back(std::move(entry));
  return check;
}

}  // namespace

std::vector<Check> check_gpus(Json& drivers, Json& gpus, bool with_usage) {
  std::vector<Check> checks;
  for (const GpuVendor vendor : {GpuVendor::cuda, GpuVendor::hip}) {
    const OpenedVendor opened = open_vendor_within(vendor, driver_limit);
    checks.push_back(check_vendor(opened.report, drivers));
    std::vector<GpuDescription> found;
    for (const std::shared_ptr<GpuDriver>& gpu : opened.gpus) {
      checks.push_back(check_gpu(gpu, gpus));
      found.push_back(gpu->description());
    }
    if (!with_usage) continue;
    for (Check& check : check_usage(vendor, found)) checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace penstock
