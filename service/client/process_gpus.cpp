// SPDX-License-Identifier: Apache-2.0
#include "service/client/process_gpus.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/resource_limits.hpp"
#include "dataplane/device/gpu/vendor.hpp"

namespace penstock {
namespace {

Failure no_driver(GpuVendor vendor, const std::string& id, const VendorReport& report) {
  if (report.state == VendorState::absent) {
    return {
        FailureKind::unsupported,
        fmt::format("{} is a GPU, and this process has not loaded the driver for it ({})", id,
                    vendor == GpuVendor::cuda ? "libcuda.so.1" : "libamdhip64.so"),
        "use the GPU first, as torch.cuda.init() or pst_use_device do, or open the table on another device"};
  }
  return {FailureKind::unsupported,
          fmt::format("the {} driver of this process can't be used: {}{}{}", gpu_vendor_name(vendor),
                      vendor_state_name(report.state), report.detail.empty() ? "" : ": ", report.detail),
          report.remedy};
}

}  // namespace

Outcome<ProcessGpu> ProcessGpus::find(GpuVendor vendor, const std::string& id) {
  if (const auto known = found_.find(id); known != found_.end()) return known->second;
  auto streams = open_program_streams(vendor);
  const int device = streams ? (*streams)->current_device() : -1;
  const OpenedVendor opened = open_vendor(vendor, DriverLoading::already_there);
  if (streams) (*streams)->set_current_device(device);
  if (opened.gpus.empty()) return tl::unexpected(no_driver(vendor, id, opened.report));
  if (!streams)
    return fail(FailureKind::unsupported,
                fmt::format("the driver of this process lacks {}", streams.error().operation));
  const auto gpu = std::find_if(opened.gpus.begin(), opened.gpus.end(),
                                [&](const auto& one) { return one->description().identity.id == id; });
  if (gpu == opened.gpus.end()) {
    return fail(FailureKind::unsupported, fmt::format("this process does not see the GPU {}", id),
                "CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or its container hide it");
  }
  if (!(*gpu)->description().has_vmm)
    return fail(FailureKind::unsupported,
                fmt::format("pages of {} can't be mapped: {}", id, (*gpu)->description().why_no_vmm));
  // Pages come as descriptors, many at a time. Refused, the failure of a mapping says so.
  static_cast<void>(raise_open_files_limit());
  return found_.emplace(id, ProcessGpu{*gpu, std::move(*streams)}).first->second;
}

}  // namespace penstock
