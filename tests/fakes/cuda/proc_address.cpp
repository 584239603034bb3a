// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress: symbols by the version that introduced the form that we declare. Where the driver has another form
// under the same name, older or newer, asking for that version gives a function that aborts when it is called.
#include <array>
#include <cstring>

#include "tests/fakes/cuda/declarations.hpp"
#include "tests/fakes/cuda/entry.hpp"
#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {
namespace {

struct Symbol {
  const char* name;
  int version;  // Our form begins here,
  void* address;
  int before = 0;  // another begins here and ends where ours begins,
  int after = 0;   // and another begins here.
};

[[noreturn]] CudaResult other_form() {
  die("a driver call was asked for at a version where its parameters differ");
}

template <class F>
void* at(F* function) {
  return reinterpret_cast<void*>(function);
}

const auto& symbols() {
  static const auto list = std::to_array<Symbol>({
      {"cuInit", 2000, at(cuInit)},
      {"cuDriverGetVersion", 2020, at(cuDriverGetVersion)},
      {"cuGetErrorName", 6000, at(cuGetErrorName)},
      {"cuGetErrorString", 6000, at(cuGetErrorString)},
      {"cuGetProcAddress", 12000, at(cuGetProcAddress_v2), 11030},
      {"cuDeviceGetCount", 2000, at(cuDeviceGetCount)},
      {"cuDeviceGet", 2000, at(cuDeviceGet)},
      {"cuDeviceGetName", 2000, at(cuDeviceGetName)},
      {"cuDeviceGetAttribute", 2000, at(cuDeviceGetAttribute)},
      {"cuDeviceGetUuid", 9020, at(cuDeviceGetUuid_v2)},
      {"cuDeviceGetPCIBusId", 4010, at(cuDeviceGetPCIBusId)},
      {"cuDeviceTotalMem", 3020, at(cuDeviceTotalMem_v2), 2000},
      {"cuMemGetAllocationGranularity", 10020, at(cuMemGetAllocationGranularity)},
      {"cuMemCreate", 10020, at(cuMemCreate)},
      {"cuMemRelease", 10020, at(cuMemRelease)},
      {"cuMemExportToShareableHandle", 10020, at(cuMemExportToShareableHandle)},
      {"cuMemImportFromShareableHandle", 10020, at(cuMemImportFromShareableHandle)},
      {"cuMemAddressReserve", 10020, at(cuMemAddressReserve)},
      {"cuMemAddressFree", 10020, at(cuMemAddressFree)},
      {"cuMemMap", 10020, at(cuMemMap)},
      {"cuMemUnmap", 10020, at(cuMemUnmap)},
      {"cuMemSetAccess", 10020, at(cuMemSetAccess)},
      {"cuMemGetAccess", 10020, at(cuMemGetAccess)},
      {"cuCtxCreate", 3020, at(cuCtxCreate_v2), 2000, 11040},
      {"cuCtxDestroy", 4000, at(cuCtxDestroy_v2), 2000},
      {"cuCtxPushCurrent", 4000, at(cuCtxPushCurrent_v2), 2000},
      {"cuCtxPopCurrent", 4000, at(cuCtxPopCurrent_v2), 2000},
      {"cuCtxSetCurrent", 4000, at(cuCtxSetCurrent)},
      {"cuCtxGetCurrent", 4000, at(cuCtxGetCurrent)},
      {"cuCtxGetDevice", 2000, at(cuCtxGetDevice), 0, 13000},
      {"cuCtxSynchronize", 2000, at(cuCtxSynchronize), 0, 13000},
      {"cuDevicePrimaryCtxRetain", 7000, at(cuDevicePrimaryCtxRetain)},
      {"cuDevicePrimaryCtxRelease", 7000, at(cuDevicePrimaryCtxRelease_v2)},
      {"cuDevicePrimaryCtxGetState", 7000, at(cuDevicePrimaryCtxGetState)},
      {"cuMemGetInfo", 3020, at(cuMemGetInfo_v2), 2000},
      {"cuMemAlloc", 3020, at(cuMemAlloc_v2), 2000},
      {"cuMemFree", 3020, at(cuMemFree_v2), 2000},
      {"cuMemHostAlloc", 2020, at(cuMemHostAlloc)},
      {"cuMemFreeHost", 2000, at(cuMemFreeHost)},
      {"cuMemHostRegister", 4000, at(cuMemHostRegister_v2)},
      {"cuMemHostUnregister", 4000, at(cuMemHostUnregister)},
      {"cuMemHostGetDevicePointer", 3020, at(cuMemHostGetDevicePointer_v2), 2020},
      {"cuMemcpyHtoDAsync", 3020, at(cuMemcpyHtoDAsync_v2), 2000},
      {"cuMemcpyDtoHAsync", 3020, at(cuMemcpyDtoHAsync_v2), 2000},
      {"cuMemcpyDtoDAsync", 3020, at(cuMemcpyDtoDAsync_v2), 3000},
      {"cuMemsetD8Async", 3020, at(cuMemsetD8Async)},
      {"cuMemsetD32Async", 3020, at(cuMemsetD32Async)},
      {"cuStreamCreate", 2000, at(cuStreamCreate)},
      {"cuStreamDestroy", 4000, at(cuStreamDestroy_v2), 2000},
      {"cuStreamQuery", 2000, at(cuStreamQuery)},
      {"cuStreamSynchronize", 2000, at(cuStreamSynchronize)},
      {"cuStreamWaitEvent", 3020, at(cuStreamWaitEvent)},
      {"cuStreamIsCapturing", 10000, at(cuStreamIsCapturing)},
      {"cuThreadExchangeStreamCaptureMode", 10010, at(cuThreadExchangeStreamCaptureMode)},
      {"cuStreamBeginCapture", 10010, at(cuStreamBeginCapture_v2), 10000},
      {"cuStreamEndCapture", 10000, at(cuStreamEndCapture)},
      {"cuEventCreate", 2000, at(cuEventCreate)},
      {"cuEventDestroy", 4000, at(cuEventDestroy_v2), 2000},
      {"cuEventRecord", 2000, at(cuEventRecord)},
      {"cuEventQuery", 2000, at(cuEventQuery)},
      {"cuEventSynchronize", 2000, at(cuEventSynchronize)},
      {"cuModuleLoadData", 2000, at(cuModuleLoadData)},
      {"cuModuleUnload", 2000, at(cuModuleUnload)},
      {"cuModuleGetFunction", 2000, at(cuModuleGetFunction)},
      {"cuLaunchKernel", 4000, at(cuLaunchKernel)},
  });
  return list;
}

// Null is an answer too: the status says why.
void look_up(const char* name, int version, void** address, int* status) {
  *address = nullptr;
  *status = cuda_proc_address_not_found;
  for (const Symbol& symbol : symbols()) {
    if (std::strcmp(symbol.name, name) != 0) continue;
    *status = cuda_proc_address_found;
    if (symbol.after != 0 && version >= symbol.after) {
      *address = at(other_form);
    } else if (version >= symbol.version) {
      *address = symbol.address;
    } else if (symbol.before != 0 && version >= symbol.before) {
      *address = at(other_form);
    } else {
      *status = cuda_proc_address_version_not_sufficient;
    }
  }
}

CudaResult get(const char* symbol, void** address, int version, std::uint64_t flags, int* status) {
  if (settings().stub) {
    if (status != nullptr) *status = -1;
    return cuda_error_stub_library;
  }
  if (symbol == nullptr || address == nullptr || flags > 2 || version > settings().version) {
    return cuda_error_invalid_value;
  }
  int found = 0;
  look_up(symbol, version, address, &found);
  if (status != nullptr) *status = found;
  return cuda_success;
}

}  // namespace

FAKE_EXPORT CudaResult cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                           std::uint64_t flags, int* status) {
  const auto look = [&] { return get(symbol, address, version, flags, status); };
  const CudaResult result = answer("cuGetProcAddress", Needs::nothing, look);
  return settings().stub ? look() : result;
}

// Of 11.3. The first form says "not found" by its result.
FAKE_EXPORT CudaResult cuGetProcAddress(const char* symbol, void** address, int version,
                                        std::uint64_t flags) {
  return answer("cuGetProcAddress", Needs::nothing, [&]() -> CudaResult {
    const CudaResult result = get(symbol, address, version, flags, nullptr);
    return result == cuda_success && *address == nullptr ? CudaResult{cuda_error_not_found} : result;
  });
}

}  // namespace penstock::fake
