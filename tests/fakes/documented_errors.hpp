// SPDX-License-Identifier: Apache-2.0
// Each call of the drivers that this project makes, and the errors that the vendors' headers document for it; those of a
// context that an earlier, asynchronous fault has killed included. A test compares them with the toolkit's header. HIP numbers alike, and has a word for most of them.
//
// The fakes play them on demand (engine/faults.hpp). `parts` says which of the project's parts make the call, and so which
// tests inject its errors; a test compares the list with the drivers' tables, so that no call is forgotten.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::fake {

enum CallParts : std::uint8_t {
  by_start = 1,   // Finding the GPUs, in every process.
  by_device = 2,  // The owner of frames, and their writer.
  by_client = 4,  // The library inside of somebody's program,
  by_copy = 8,    // and its copies of whole tables.
};
// In which table of functions it is; `in_loading`: it fills one.
enum CallTables : std::uint8_t { in_driver = 1, in_streams = 2, in_both = 3, in_loading = 4 };

struct DocumentedCall {
  const char* cuda;  // Null: HIP alone.
  const char* hip;   // Null: CUDA alone.
  std::uint8_t parts;
  CallTables tables;
  std::span<const int> cuda_errors;
};

namespace errors {
inline constexpr int version[] = {1}, init[] = {1, 34, 100, 101, 802, 803, 804, 999};
inline constexpr int look[] = {1, 3, 4, 100, 101, 201};
inline constexpr int granularity[] = {1, 3, 4, 101, 800, 801};
inline constexpr int memory[] = {1, 3, 4, 800, 801};
inline constexpr int memory_release[] = {1, 3, 4, 800, 801, 999};
inline constexpr int memory_create[] = {1, 2, 3, 4, 101, 800, 801, 999};
inline constexpr int memory_export[] = {1, 2, 3, 4, 600, 800, 801};
inline constexpr int memory_reserve[] = {1, 2, 3, 4, 800, 801};
inline constexpr int memory_map[] = {1, 2, 3, 4, 101, 401, 800, 801};
inline constexpr int memory_access[] = {1, 2, 3, 4, 101, 800, 801, 999};
inline constexpr int context_make[] = {1, 2, 3, 4, 46, 101, 201, 700, 719, 805, 810, 999};
inline constexpr int context_set[] = {1, 2, 3, 4, 201, 700, 709, 719, 999};
inline constexpr int context_state[] = {1, 3, 4, 101};
inline constexpr int context_look[] = {1, 3, 4, 201}, context_push[] = {1, 3, 4, 201, 709};
inline constexpr int device_set[] = {1, 2, 3, 4, 100, 101, 201, 700, 709, 719, 999};
inline constexpr int in_context[] = {1, 2, 3, 4, 201, 700, 709, 719, 999};
inline constexpr int host_register[] = {1, 2, 3, 4, 201, 700, 712, 800, 801};
inline constexpr int host_unregister[] = {1, 2, 3, 4, 201, 700, 709, 713, 719, 999};
inline constexpr int context_release[] = {1, 2, 3, 4, 101, 201, 700, 709, 719, 999};
inline constexpr int with_handle[] = {1, 2, 3, 4, 201, 400, 700, 709, 719, 999};
inline constexpr int query[] = {1, 2, 3, 4, 201, 400, 600, 700, 709, 719, 999};
inline constexpr int capturing[] = {1, 3, 4, 201, 400, 700, 719, 906};
inline constexpr int capture_mode[] = {1, 3, 4, 201};
inline constexpr int module_load[] = {1, 2, 3, 4, 201, 209, 218, 221, 222, 302, 303, 700, 999};
inline constexpr int module_unload[] = {1, 2, 3, 4, 201, 700, 709, 719, 800, 999};
inline constexpr int module_function[] = {1, 3, 4, 201, 500, 700, 999};
inline constexpr int launch[] = {1, 2, 3, 4, 200, 201, 303, 400, 500, 700, 701, 702, 703, 709, 717, 719, 999};
inline constexpr int look_up[] = {1, 801};
}  // namespace errors

// hipError_t, of hip_runtime_api.h.
inline constexpr std::array hip_answers{1,   2,   3,   4,   100, 101, 200, 201, 209, 218, 302, 303, 400,
                                        401, 500, 600, 700, 701, 702, 709, 712, 713, 719, 801, 906, 999};

inline constexpr DocumentedCall documented_calls[] = {
    {"cuGetProcAddress", nullptr, by_start, in_loading, errors::look_up},
    {"cuInit", "hipInit", by_start, in_driver, errors::init},
    {"cuDriverGetVersion", "hipRuntimeGetVersion", by_start, in_driver, errors::version},
    {"cuDeviceGetCount", "hipGetDeviceCount", by_start, in_driver, errors::look},
    {"cuDeviceGet", "hipDeviceGet", by_start, in_driver, errors::look},
    {"cuDeviceGetName", "hipDeviceGetName", by_start, in_driver, errors::look},
    {"cuDeviceGetAttribute", "hipDeviceGetAttribute", by_start, in_driver, errors::look},
    {"cuDeviceGetUuid", "hipDeviceGetUuid", by_start, in_driver, errors::look},
    {"cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", by_start, in_driver, errors::look},
    {"cuDeviceTotalMem", "hipDeviceTotalMem", by_start, in_driver, errors::look},
    {"cuMemGetAllocationGranularity", "hipMemGetAllocationGranularity", by_start, in_driver,
     errors::granularity},

    {"cuMemCreate", "hipMemCreate", by_device, in_driver, errors::memory_create},
    {"cuMemExportToShareableHandle", "hipMemExportToShareableHandle", by_device, in_driver,
     errors::memory_export},
    {"cuMemRelease", "hipMemRelease", by_device | by_client, in_driver, errors::memory_release},
    {"cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle", by_device | by_client, in_driver,
     errors::memory_reserve},
    {"cuMemAddressReserve", "hipMemAddressReserve", by_device | by_client, in_driver, errors::memory_reserve},
    {"cuMemAddressFree", "hipMemAddressFree", by_device | by_client, in_driver, errors::memory_release},
    {"cuMemMap", "hipMemMap", by_device | by_client, in_driver, errors::memory_map},
    {"cuMemSetAccess", "hipMemSetAccess", by_device | by_client, in_driver, errors::memory_access},
    {"cuMemUnmap", "hipMemUnmap", by_device | by_client, in_driver, errors::memory_release},

    {"cuDevicePrimaryCtxRetain", nullptr, by_device, in_driver, errors::context_make},
    // In the client where a thread has no context: a test of its own.
    {"cuDevicePrimaryCtxGetState", nullptr, 0, in_driver, errors::context_state},
    {"cuDevicePrimaryCtxRelease", nullptr, by_device, in_driver, errors::context_release},
    {"cuCtxSetCurrent", nullptr, by_device, in_driver, errors::context_set},
    {"cuCtxGetCurrent", nullptr, by_client | by_copy, in_driver, errors::context_look},
    {"cuCtxGetDevice", nullptr, by_client | by_copy, in_driver, errors::context_look},
    {"cuCtxPushCurrent", nullptr, by_copy, in_driver, errors::context_push},
    {"cuCtxPopCurrent", nullptr, by_copy, in_driver, errors::context_look},
    {nullptr, "hipSetDevice", by_device | by_client | by_copy, in_both, errors::device_set},
    {nullptr, "hipGetDevice", by_client | by_copy, in_both, errors::in_context},
    {"cuMemAlloc", "hipMalloc", by_copy, in_driver, errors::in_context},
    {"cuMemFree", "hipFree", by_copy, in_driver, errors::in_context},
    {"cuMemGetInfo", "hipMemGetInfo", by_device, in_driver, errors::in_context},
    {"cuMemHostAlloc", "hipHostMalloc", by_device, in_driver, errors::in_context},
    {"cuMemFreeHost", "hipHostFree", by_device, in_driver, errors::in_context},
    {"cuMemHostRegister", "hipHostRegister", by_device, in_driver, errors::host_register},
    {"cuMemHostUnregister", "hipHostUnregister", by_device, in_driver, errors::host_unregister},
    {"cuMemHostGetDevicePointer", "hipHostGetDevicePointer", by_device, in_driver, errors::in_context},
    {"cuMemcpyHtoDAsync", "hipMemcpyHtoDAsync", by_device | by_copy, in_driver, errors::with_handle},
    {"cuMemcpyDtoHAsync", "hipMemcpyDtoHAsync", by_device | by_client | by_copy, in_both,
     errors::with_handle},
    {"cuMemcpyDtoDAsync", "hipMemcpyDtoDAsync", by_device, in_driver, errors::with_handle},
    {"cuMemsetD32Async", "hipMemsetD32Async", by_device, in_driver, errors::in_context},
    {"cuStreamCreate", "hipStreamCreateWithFlags", by_device | by_copy, in_driver, errors::in_context},
    {"cuStreamDestroy", "hipStreamDestroy", by_device | by_copy, in_driver, errors::with_handle},
    {"cuStreamSynchronize", "hipStreamSynchronize", by_device | by_client | by_copy, in_both,
     errors::with_handle},
    {"cuStreamWaitEvent", "hipStreamWaitEvent", by_device, in_driver, errors::with_handle},
    {"cuEventCreate", "hipEventCreateWithFlags", by_device | by_client, in_both, errors::in_context},
    {"cuEventDestroy", "hipEventDestroy", by_device | by_client, in_both, errors::with_handle},
    {"cuEventRecord", "hipEventRecord", by_device | by_client, in_both, errors::with_handle},
    {"cuEventSynchronize", "hipEventSynchronize", by_device | by_client, in_both, errors::with_handle},
    {"cuEventQuery", "hipEventQuery", by_client, in_streams, errors::query},
    {"cuStreamIsCapturing", "hipStreamIsCapturing", by_client | by_copy, in_streams, errors::capturing},
    {"cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode", by_client | by_copy,
     in_streams, errors::capture_mode},
    {"cuCtxSynchronize", "hipDeviceSynchronize", by_client, in_streams, errors::in_context},

    {nullptr, "hipGetDevicePropertiesR0600", by_device, in_driver, errors::look},
    {"cuModuleLoadData", "hipModuleLoadData", by_device, in_driver, errors::module_load},
    {"cuModuleUnload", "hipModuleUnload", by_device, in_driver, errors::module_unload},
    {"cuModuleGetFunction", "hipModuleGetFunction", by_device, in_driver, errors::module_function},
    {"cuLaunchKernel", "hipModuleLaunchKernel", by_device, in_driver, errors::launch},
};

inline bool answers(const DocumentedCall& call, bool hip, int code) {
  for (const int documented : call.cuda_errors) {
    if (documented != code) continue;
    for (const int one : hip_answers) {
      if (!hip || one == code) return true;
    }
  }
  return false;
}

}  // namespace penstock::fake
