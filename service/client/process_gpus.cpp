// SPDX-License-Identifier: Apache-2.0
#include "service/client/process_gpus.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/resource_limits.hpp"

namespace penstock {
namespace {

constexpr const char* first_use =
    "use the GPU first, as torch.cuda.init() or pst_use_device do, or open the table on another device";

Failure no_driver(GpuVendor vendor, const std::string& id, const VendorReport& report) {
  if (report.state == VendorState::absent) {
    return {FailureKind::unsupported,
            fmt::format("{} is a GPU, and this process has not loaded the driver for it ({})", id,
                        vendor == GpuVendor::cuda ? "libcuda.so.1" : "libamdhip64.so"),
            first_use};
  }
  return {FailureKind::unsupported,
          fmt::format("the {} driver of this process can't be used: {}{}{}", gpu_vendor_name(vendor),
                      vendor_state_name(report.state), report.detail.empty() ? "" : ": ", report.detail),
          report.remedy};
}

Failure not_seen(const std::string& id) {
  return {FailureKind::unsupported, fmt::format("this process does not see the GPU {}", id),
          "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or its container hide it"};
}

Failure no_context(const std::string& id, DriverCode code) {
  constexpr std::int32_t invalid_context = 201;
  if (code.native == invalid_context) {
    return {FailureKind::unsupported, fmt::format("no context of {} is current in this thread", id),
            first_use};
  }
  return {FailureKind::device_unhealthy,
          fmt::format("no context on {}: {} answered {} ({})", id, code.call, driver_code_name(code.native),
                      code.native),
          ""};
}

}  // namespace

std::optional<GpuName> gpu_name(std::string_view text) {
  for (const GpuVendor vendor : {GpuVendor::cuda, GpuVendor::hip}) {
    const std::string_view kind = gpu_vendor_name(vendor);
    if (text == kind) return GpuName{vendor, ""};
    if (text.starts_with(kind) && text.substr(kind.size()).starts_with('-'))
      return GpuName{vendor, std::string(text)};
  }
  return std::nullopt;
}

Outcome<ProcessGpus::Opened> ProcessGpus::open(GpuVendor vendor, const std::string& id) const {
  auto streams = open_program_streams(vendor);
  std::optional<OwnErrors> errors;
  if (streams) errors.emplace(**streams);
  const int device = streams ? (*streams)->current_device() : -1;
  OpenedVendor opened = open_vendor(vendor, DriverLoading::already_there);
  if (streams) (*streams)->set_current_device(device);
  if (opened.gpus.empty()) return tl::unexpected(no_driver(vendor, id, opened.report));
  if (!streams)
    return fail(FailureKind::unsupported,
                fmt::format("the driver of this process lacks {}", streams.error().operation));
  return Opened{std::move(opened.gpus), std::move(*streams)};
}

Outcome<ProcessGpu> ProcessGpus::find(GpuVendor vendor, const std::string& id) {
  if (const auto known = found_.find(id); known != found_.end()) return known->second;
  auto opened = open(vendor, id);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  const auto gpu = std::ranges::find_if(
      opened->gpus, [&](const auto& one) { return one->description().identity.id == id; });
  if (gpu == opened->gpus.end()) return tl::unexpected(not_seen(id));
  if (!(*gpu)->description().has_vmm)
    return fail(FailureKind::unsupported,
                fmt::format("pages of {} can't be mapped: {}", id, (*gpu)->description().why_no_vmm));
  // Pages come as descriptors, many at a time. Refused, the failure of a mapping says so.
  static_cast<void>(raise_open_files_limit());
  return found_.emplace(id, ProcessGpu{*gpu, std::move(opened->streams), contexts_of(*gpu)}).first->second;
}

std::shared_ptr<ProgramContexts> ProcessGpus::contexts_of(const std::shared_ptr<GpuDriver>& gpu) {
  auto& contexts = contexts_[gpu->description().identity.id];
  if (!contexts) contexts = std::make_shared<ProgramContexts>(gpu);
  return contexts;
}

Outcome<PlainGpu> ProcessGpus::find_plain(const GpuName& name) {
  const std::string told = name.id.empty() ? std::string(gpu_vendor_name(name.vendor)) : name.id;
  auto opened = open(name.vendor, told);
  if (!opened) return tl::unexpected(std::move(opened.error()));
  const OwnErrors errors(*opened->streams);
  DriverCode refused{};
  bool seen = false;
  for (const auto& gpu : opened->gpus) {
    const GpuDescription& description = gpu->description();
    if (!name.id.empty() && description.identity.id != name.id) continue;
    seen = true;
    std::unique_ptr<DriverContext> context;
    refused = gpu->adopt_context(context);
    if (!refused.ok()) continue;
    return PlainGpu{{gpu, std::move(opened->streams), contexts_of(gpu)}, std::move(context)};
  }
  return tl::unexpected(seen ? no_context(told, refused) : not_seen(told));
}

}  // namespace penstock
