// SPDX-License-Identifier: Apache-2.0
// The functions of libcuda.so.1, found at run time. The library is never unloaded: drivers do not survive that, and a
// thread that hangs in one is left behind.
#pragma once

#include <string>

#include "dataplane/device/cuda/cuda_abi.h"
#include "dataplane/device/gpu/driver_code.hpp"

namespace penstock {

struct CudaTable {
  CudaInit init = nullptr;
  CudaDriverGetVersion driver_get_version = nullptr;
  CudaDeviceGetCount device_get_count = nullptr;
  CudaDeviceGet device_get = nullptr;
  CudaDeviceGetName device_get_name = nullptr;
  CudaDeviceGetAttribute device_get_attribute = nullptr;
  CudaDeviceGetUuid device_get_uuid = nullptr;
  CudaDeviceGetPciBusId device_get_pci_bus_id = nullptr;
  CudaDeviceTotalMem device_total_mem = nullptr;

  CudaMemGetAllocationGranularity mem_get_allocation_granularity = nullptr;
  CudaMemCreate mem_create = nullptr;
  CudaMemRelease mem_release = nullptr;
  CudaMemExportToShareableHandle mem_export = nullptr;
  CudaMemImportFromShareableHandle mem_import = nullptr;
  CudaMemAddressReserve mem_address_reserve = nullptr;
  CudaMemAddressFree mem_address_free = nullptr;
  CudaMemMap mem_map = nullptr;
  CudaMemUnmap mem_unmap = nullptr;
  CudaMemSetAccess mem_set_access = nullptr;

  CudaPrimaryContextRetain primary_context_retain = nullptr;
  CudaPrimaryContextRelease primary_context_release = nullptr;
  CudaPrimaryContextGetState primary_context_get_state = nullptr;
  CudaContextSetCurrent context_set_current = nullptr;
  CudaContextGetCurrent context_get_current = nullptr;
  CudaContextGetDevice context_get_device = nullptr;
  CudaContextPush context_push = nullptr;
  CudaContextPop context_pop = nullptr;
  CudaMemGetInfo mem_get_info = nullptr;
  CudaMemAlloc mem_alloc = nullptr;
  CudaMemFree mem_free = nullptr;
  CudaMemHostAlloc mem_host_alloc = nullptr;
  CudaMemFreeHost mem_free_host = nullptr;
  CudaMemHostRegister mem_host_register = nullptr;
  CudaMemHostUnregister mem_host_unregister = nullptr;
  CudaMemHostGetDevicePointer mem_host_get_device_pointer = nullptr;
  CudaMemcpyHtoDAsync memcpy_htod_async = nullptr;
  CudaMemcpyDtoHAsync memcpy_dtoh_async = nullptr;
  CudaMemcpyDtoDAsync memcpy_dtod_async = nullptr;
  CudaMemsetD32Async memset_d32_async = nullptr;
  CudaStreamCreate stream_create = nullptr;
  CudaStreamDestroy stream_destroy = nullptr;
  CudaStreamSynchronize stream_synchronize = nullptr;
  CudaStreamWaitEvent stream_wait_event = nullptr;
  CudaEventCreate event_create = nullptr;
  CudaEventDestroy event_destroy = nullptr;
  CudaEventRecord event_record = nullptr;
  CudaEventSynchronize event_synchronize = nullptr;

  CudaModuleLoadData module_load_data = nullptr;
  CudaModuleUnload module_unload = nullptr;
  CudaModuleGetFunction module_get_function = nullptr;
  CudaLaunchKernel launch_kernel = nullptr;
};

struct LoadedCuda {
  enum class State : std::uint8_t { absent, unloadable, stub, incomplete, loaded };
  State state = State::absent;
  CudaTable table;
  std::string library;
  std::string detail;  // What the loader said, or which function is missing.
  std::string
      no_vmm;  // Which one of virtual memory management is missing; the others of the table are there.
};
// `open_flags`: of dlopen, besides RTLD_NOW and RTLD_LOCAL.
LoadedCuda load_cuda(int open_flags = 0);

}  // namespace penstock
