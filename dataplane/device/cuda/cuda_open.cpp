// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "dataplane/device/cuda/cuda_driver.hpp"
#include "dataplane/device/gpu/vendor.hpp"

namespace penstock {
namespace {

bool has(const CudaTable& table, CudaDeviceAttribute attribute, CudaDevice device) {
  int value = 0;
  return table.device_get_attribute(&value, attribute, device) == cuda_success && value != 0;
}

DriverCode identify(const CudaTable& table, CudaDevice device, GpuIdentity& identity) {
  CudaUuid uuid{};
  const DriverCode code{table.device_get_uuid(&uuid, device), "cuDeviceGetUuid"};
  if (!code.ok()) return code;
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), identity.uuid.begin());
  std::array<char, 32> address{};
  const DriverCode located{table.device_get_pci_bus_id(address.data(), address.size(), device),
                           "cuDeviceGetPCIBusId"};
  if (!located.ok()) return located;
  if (const auto pci = parse_pci_address(address.data())) identity.pci = *pci;
  std::array<char, 128> name{};
  if (table.device_get_name(name.data(), name.size(), device) == cuda_success) identity.name = name.data();
  return located;
}

DriverCode describe(const LoadedCuda& loaded, CudaDevice device, GpuDescription& gpu) {
  const CudaTable& table = loaded.table;
  if (const DriverCode code = identify(table, device, gpu.identity); !code.ok()) return code;
  std::size_t total = 0;
  const DriverCode sized{table.device_total_mem(&total, device), "cuDeviceTotalMem"};
  if (!sized.ok()) return sized;
  gpu.total_bytes = total;
  gpu.shares_host_memory = has(table, cuda_attribute_integrated, device);
  if (!loaded.no_vmm.empty()) {
    gpu.why_no_vmm =
        fmt::format("the driver lacks {}: virtual memory management came with CUDA 10.2", loaded.no_vmm);
  } else if (!has(table, cuda_attribute_virtual_memory_management_supported, device)) {
    gpu.why_no_vmm = "this GPU or its virtualisation has no virtual memory management";
  } else if (!has(table, cuda_attribute_posix_file_descriptor_supported, device)) {
    gpu.why_no_vmm = "memory of this GPU can't be exported as a descriptor";
  } else {
    const CudaMemProperties properties = cuda_memory_properties(device);
    std::size_t granularity = 0;
    const CudaResult asked =
        table.mem_get_allocation_granularity(&granularity, &properties, cuda_mem_granularity_recommended);
    gpu.has_vmm = asked == cuda_success && granularity > 0;
    if (gpu.has_vmm)
      gpu.granularity_bytes = granularity;
    else
      gpu.why_no_vmm = fmt::format("cuMemGetAllocationGranularity answered {}", asked);
  }
  return sized;
}

VendorReport state_of(const LoadedCuda& loaded) {
  VendorReport report{.vendor = GpuVendor::cuda,
                      .version = "",
                      .library = loaded.library,
                      .detail = loaded.detail,
                      .remedy = ""};
  switch (loaded.state) {
    case LoadedCuda::State::absent: report.state = VendorState::absent; break;
    case LoadedCuda::State::unloadable:
      report.state = VendorState::broken;
      report.remedy = unloadable_remedy;
      break;
    case LoadedCuda::State::stub: return report_of(report, {cuda_error_stub_library, "cuGetProcAddress"});
    case LoadedCuda::State::incomplete:
      report.state = VendorState::broken;
      report.detail = fmt::format("the driver lacks {}", loaded.detail);
      report.remedy = "install a newer driver, for CUDA 10.2 at least";
      break;
    case LoadedCuda::State::loaded: report.state = VendorState::usable; break;
  }
  return report;
}

}  // namespace

OpenedVendor open_cuda(DriverLoading loading) {
  const LoadedCuda loaded = load_cuda(loading == DriverLoading::already_there ? RTLD_NOLOAD : 0);
  VendorReport report = state_of(loaded);
  if (loaded.state != LoadedCuda::State::loaded) return {.report = std::move(report), .gpus = {}};
  const auto table = std::make_shared<const CudaTable>(loaded.table);
  int version = 0;
  if (table->driver_get_version(&version) == cuda_success) {
    report.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  }
  const DriverCode started{table->init(0), "cuInit"};
  if (!started.ok()) return {.report = report_of(std::move(report), started), .gpus = {}};
  int count = 0;
  const DriverCode counted{table->device_get_count(&count), "cuDeviceGetCount"};
  if (!counted.ok()) return {.report = report_of(std::move(report), counted), .gpus = {}};

  std::vector<GpuDescription> descriptions;
  std::vector<CudaDevice> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CudaDevice device = 0;
    GpuDescription gpu;
    gpu.identity.vendor = GpuVendor::cuda;
    DriverCode code{table->device_get(&device, ordinal), "cuDeviceGet"};
    if (code.ok()) code = describe(loaded, device, gpu);
    // One GPU that fell off the bus must not take the others with it.
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
    gpus.push_back(std::make_shared<CudaDriver>(table, devices[at], std::move(descriptions[at])));
  }
  return finish(std::move(report), std::move(gpus));
}

}  // namespace penstock
