// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/vendor.hpp"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

namespace penstock {
namespace {

bool is_vmm_usable(const std::shared_ptr<GpuDriver>& gpu) { return gpu->description().has_vmm; }

}  // namespace

std::string_view vendor_state_name(VendorState state) {
  switch (state) {
    case VendorState::absent: return "absent";
    case VendorState::without_device: return "without_device";
    case VendorState::broken: return "broken";
    case VendorState::usable_without_vmm: return "usable_without_vmm";
    case VendorState::usable: break;
  }
  return "usable";
}

OpenedVendor open_vendor(GpuVendor vendor, DriverLoading loading) {
  return vendor == GpuVendor::cuda ? open_cuda(loading) : open_hip(loading);
}

OpenedVendor open_vendor_within(GpuVendor vendor, std::chrono::milliseconds limit) {
  std::promise<OpenedVendor> promise;
  std::future<OpenedVendor> opened = promise.get_future();
  std::thread([vendor, promise = std::move(promise)]() mutable {
    ::pthread_setname_np(::pthread_self(), "penstock-probe");
    promise.set_value(open_vendor(vendor, DriverLoading::load));
  }).detach();
  if (opened.wait_for(limit) == std::future_status::ready) return opened.get();
  return {.report = {.vendor = vendor,
                     .state = VendorState::broken,
                     .version = "",
                     .library = "",
                     .detail = fmt::format("the driver did not answer within {} ms", limit.count()),
                     .remedy = "look for Xid or amdgpu lines in the kernel's log; the GPU may need a reset"},
          .gpus = {}};
}

VendorReport report_of(VendorReport so_far, DriverCode refused) {
  so_far.detail =
      fmt::format("{} answered {} ({})", refused.call, refused.native, driver_code_name(refused.native));
  switch (classify(refused)) {
    case DriverClass::absent:
      so_far.state = VendorState::without_device;
      if (refused.native == 34) so_far.detail = "only the toolkit's stub library is installed, not a driver";
      return so_far;
    case DriverClass::skew:
      so_far.remedy = "library and kernel driver differ: reboot, or restart the container";
      break;
    default: break;
  }
  // HIP says "invalid device" where there is none.
  so_far.state = refused.native == 101 ? VendorState::without_device : VendorState::broken;
  return so_far;
}

void name_descriptions(std::vector<GpuDescription>& gpus) {
  std::vector<GpuIdentity> identities;
  identities.reserve(gpus.size());
  for (const GpuDescription& gpu : gpus) identities.push_back(gpu.identity);
  name_gpus(identities);
  for (std::size_t at = 0; at < gpus.size(); ++at) gpus[at].identity.id = identities[at].id;
}

OpenedVendor finish(VendorReport so_far, std::vector<std::shared_ptr<GpuDriver>> gpus) {
  if (gpus.empty()) {
    so_far.state = VendorState::without_device;
    so_far.detail = "the driver shows no GPU to this process";
    return {.report = std::move(so_far), .gpus = {}};
  }
  const bool usable = std::ranges::any_of(gpus, is_vmm_usable);
  so_far.state = usable ? VendorState::usable : VendorState::usable_without_vmm;
  const std::string failed = so_far.detail.empty() ? "" : "; one more does not answer: " + so_far.detail;
  so_far.detail = fmt::format("{} GPU{}{}", gpus.size(), gpus.size() == 1 ? "" : "s", failed);
  if (!usable) {
    so_far.detail += ", sharing is off: " + gpus.front()->description().why_no_vmm;
    so_far.remedy = whole_copies;
  }
  return {.report = std::move(so_far), .gpus = std::move(gpus)};
}

bool says_missing(std::string_view said, std::string_view library) {
  // Of the library itself: one that it needs may be what is missing.
  return said.starts_with(library) && said.find("No such file or directory") != std::string_view::npos;
}

}  // namespace penstock
