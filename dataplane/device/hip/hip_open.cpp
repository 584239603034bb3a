// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "dataplane/device/gpu/vendor.hpp"
#include "dataplane/device/hip/hip_driver.hpp"

namespace penstock {
namespace {

bool has(const HipTable& table, HipDeviceAttribute attribute, HipDevice device) {
  int value = 0;
  return table.device_get_attribute(&value, attribute, device) == hip_success && value != 0;
}

DriverCode identify(const HipTable& table, HipDevice device, GpuIdentity& identity) {
  HipUuid uuid{};
  const DriverCode code{table.device_get_uuid(&uuid, device), "hipDeviceGetUuid"};
  if (!code.ok()) return code;
  std::transform(std::begin(uuid.bytes), std::end(uuid.bytes), identity.uuid.begin(),
                 [](char byte) { return static_cast<std::uint8_t>(byte); });
  std::array<char, 32> address{};
  const DriverCode located{
      table.device_get_pci_bus_id(address.data(), static_cast<int>(address.size()), device),
      "hipDeviceGetPCIBusId"};
  if (!located.ok()) return located;
  if (const auto pci = parse_pci_address(address.data())) identity.pci = *pci;
  std::array<char, 128> name{};
  if (table.device_get_name(name.data(), static_cast<int>(name.size()), device) == hip_success)
    identity.name = name.data();
  return located;
}

// Empty where the runtime does not tell: nothing but reports depends on it.
std::string architecture_of(const HipTable& table, HipDevice device) {
  auto properties = std::make_unique<HipDeviceProperties600>();
  if (table.get_device_properties(properties.get(), device) != hip_success) return "";
  const std::string_view told(properties->architecture,
                              ::strnlen(properties->architecture, sizeof properties->architecture));
  return std::string(told.substr(0, told.find(':')));
}

DriverCode describe(const LoadedHip& loaded, const HipQuirks& quirks, HipDevice device, GpuDescription& gpu) {
  const HipTable& table = loaded.table;
  if (const DriverCode code = identify(table, device, gpu.identity); !code.ok()) return code;
  std::size_t total = 0;
  const DriverCode sized{table.device_total_mem(&total, device), "hipDeviceTotalMem"};
  if (!sized.ok()) return sized;
  gpu.total_bytes = total;
  gpu.descriptors_per_frame = quirks.descriptors_per_frame;
  gpu.shares_host_memory = has(table, hip_attribute_integrated, device);
  gpu.architecture = architecture_of(table, device);
  gpu.is_experimental = !gpu.architecture.empty() && !is_proven(gpu.architecture);
  if (quirks.support != HipSupport::full) {
    gpu.why_no_vmm = quirks.why;
  } else if (!loaded.no_vmm.empty()) {
    gpu.why_no_vmm = fmt::format("the runtime lacks {}", loaded.no_vmm);
  } else if (!has(table, hip_attribute_virtual_memory_management_supported, device)) {
    gpu.why_no_vmm = "this GPU or its kernel driver has no virtual memory management";
  } else {
    const HipMemProperties properties = hip_memory_properties(device);
    std::size_t granularity = 0;
    const HipResult asked =
        table.mem_get_allocation_granularity(&granularity, &properties, hip_mem_granularity_recommended);
    gpu.has_vmm = asked == hip_success && granularity > 0;
    if (gpu.has_vmm)
      gpu.granularity_bytes = granularity;
    else
      gpu.why_no_vmm = fmt::format("hipMemGetAllocationGranularity answered {}", asked);
  }
  return sized;
}

// The state before the runtime is initialised: its version answers first, and decides whether to go on.
VendorReport state_of(const LoadedHip& loaded, HipQuirks& quirks) {
  VendorReport report{.vendor = GpuVendor::hip,
                      .state = VendorState::absent,
                      .version = "",
                      .library = loaded.library,
                      .detail = loaded.detail,
                      .remedy = ""};
  if (loaded.state == LoadedHip::State::absent) return report;
  if (loaded.state == LoadedHip::State::unloadable) {
    report.state = VendorState::broken;
    report.remedy = unloadable_remedy;
    return report;
  }
  int number = 0;
  if (loaded.table.runtime_get_version != nullptr &&
      loaded.table.runtime_get_version(&number) == hip_success) {
    report.version = to_text(hip_version(number));
    quirks = hip_quirks(hip_version(number));
  }
  report.state = VendorState::broken;
  report.remedy = "install ROCm 6.2 or newer";
  if (loaded.state == LoadedHip::State::incomplete) {
    report.detail = fmt::format("the runtime lacks {}", loaded.detail);
  } else if (quirks.support == HipSupport::refused) {
    report.detail = quirks.why.empty() ? "the runtime does not tell its version" : quirks.why;
  } else {
    report.state = VendorState::usable;
    report.remedy.clear();
  }
  return report;
}

}  // namespace

OpenedVendor open_hip(DriverLoading loading) {
  const LoadedHip loaded = load_hip(loading == DriverLoading::already_there ? RTLD_NOLOAD : 0);
  HipQuirks quirks;
  VendorReport report = state_of(loaded, quirks);
  if (report.state != VendorState::usable) return {.report = std::move(report), .gpus = {}};
  const auto table = std::make_shared<const HipTable>(loaded.table);
  const DriverCode started{table->init(0), "hipInit"};
  if (!started.ok()) return {.report = report_of(std::move(report), started), .gpus = {}};
  int count = 0;
  const DriverCode counted{table->get_device_count(&count), "hipGetDeviceCount"};
  if (!counted.ok()) return {.report = report_of(std::move(report), counted), .gpus = {}};

  std::vector<GpuDescription> descriptions;
  std::vector<HipDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    HipDevice device = 0;
    GpuDescription gpu;
    gpu.identity.vendor = GpuVendor::hip;
    DriverCode code{table->device_get(&device, ordinal), "hipDeviceGet"};
    if (code.ok()) code = describe(loaded, quirks, device, gpu);
    if (!code.ok()) {
      report = report_of(std::move(report), code);
      continue;
    }
    descriptions.push_back(std::move(gpu));
    devices.push_back(device);
  }
  if (descriptions.empty() && count > 0) return {.report = std::move(report), .gpus = {}};
  name_descriptions(descriptions);
  std::vector<std::shared_ptr<GpuDriver>> gpus;
  for (std::size_t at = 0; at < devices.size(); ++at) {
    gpus.push_back(std::make_shared<HipDriver>(table, quirks, devices[at], std::move(descriptions[at])));
  }
  return finish(std::move(report), std::move(gpus));
}

}  // namespace penstock
