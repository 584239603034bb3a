// SPDX-License-Identifier: Apache-2.0
// The functions of libamdhip64, found at run time. The library is never unloaded.
#pragma once

#include <string>

#include "dataplane/device/hip/hip_abi.h"

namespace penstock {

struct HipTable {
  HipRuntimeGetVersion runtime_get_version = nullptr;
  HipInit init = nullptr;
  HipGetDeviceCount get_device_count = nullptr;
  HipDeviceGet device_get = nullptr;
  HipDeviceGetName device_get_name = nullptr;
  HipDeviceGetAttribute device_get_attribute = nullptr;
  HipDeviceGetUuid device_get_uuid = nullptr;
  HipDeviceGetPciBusId device_get_pci_bus_id = nullptr;
  HipDeviceTotalMem device_total_mem = nullptr;
  HipSetDevice set_device = nullptr;
  HipGetDevice get_device = nullptr;

  HipMemGetAllocationGranularity mem_get_allocation_granularity = nullptr;
  HipMemCreate mem_create = nullptr;
  HipMemRelease mem_release = nullptr;
  HipMemExportToShareableHandle mem_export = nullptr;
  HipMemImportFromShareableHandle mem_import = nullptr;
  HipMemAddressReserve mem_address_reserve = nullptr;
  HipMemAddressFree mem_address_free = nullptr;
  HipMemMap mem_map = nullptr;
  HipMemUnmap mem_unmap = nullptr;
  HipMemSetAccess mem_set_access = nullptr;

  HipMemGetInfo mem_get_info = nullptr;
  HipMalloc malloc = nullptr;
  HipFree free = nullptr;
  HipHostMalloc host_malloc = nullptr;
  HipHostFree host_free = nullptr;
  HipHostRegister host_register = nullptr;
  HipHostUnregister host_unregister = nullptr;
  HipHostGetDevicePointer host_get_device_pointer = nullptr;
  HipMemcpyHtoDAsync memcpy_htod_async = nullptr;
  HipMemcpyDtoHAsync memcpy_dtoh_async = nullptr;
  HipMemcpyDtoDAsync memcpy_dtod_async = nullptr;
  HipMemsetD32Async memset_d32_async = nullptr;
  HipStreamCreateWithFlags stream_create_with_flags = nullptr;
  HipStreamDestroy stream_destroy = nullptr;
  HipStreamSynchronize stream_synchronize = nullptr;
  HipStreamWaitEvent stream_wait_event = nullptr;
  HipEventCreateWithFlags event_create_with_flags = nullptr;
  HipEventDestroy event_destroy = nullptr;
  HipEventRecord event_record = nullptr;
  HipEventSynchronize event_synchronize = nullptr;

  HipGetDeviceProperties600 get_device_properties = nullptr;
  HipModuleLoadData module_load_data = nullptr;
  HipModuleUnload module_unload = nullptr;
  HipModuleGetFunction module_get_function = nullptr;
  HipModuleLaunchKernel module_launch_kernel = nullptr;
};

struct LoadedHip {
  enum class State : std::uint8_t { absent, unloadable, incomplete, loaded };
  State state = State::absent;
  HipTable table;
  std::string library;
  std::string detail;  // What the loader said, or which function is missing.
  std::string
      no_vmm;  // Which one of virtual memory management is missing; the others of the table are there.
};
// `open_flags`: of dlopen, besides RTLD_NOW and RTLD_LOCAL. The newest major version that is installed.
LoadedHip load_hip(int open_flags = 0);

}  // namespace penstock
