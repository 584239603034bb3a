// SPDX-License-Identifier: Apache-2.0
// The exported functions of the fake CUDA driver, for its own table of symbols.
#pragma once

#include "tests/fakes/cuda/entry.hpp"

namespace penstock::fake {

FAKE_EXPORT CudaResult cuInit(unsigned flags);
FAKE_EXPORT CudaResult cuDriverGetVersion(int* version);
FAKE_EXPORT CudaResult cuGetErrorName(CudaResult error, const char** name);
FAKE_EXPORT CudaResult cuGetErrorString(CudaResult error, const char** text);
FAKE_EXPORT CudaResult cuDeviceGetCount(int* count);
FAKE_EXPORT CudaResult cuDeviceGet(CudaDevice* device, int ordinal);
FAKE_EXPORT CudaResult cuDeviceGetName(char* name, int length, CudaDevice device);
FAKE_EXPORT CudaResult cuDeviceGetAttribute(int* value, int attribute, CudaDevice device);
FAKE_EXPORT CudaResult cuDeviceGetUuid_v2(CudaUuid* uuid, CudaDevice device);
FAKE_EXPORT CudaResult cuDeviceGetUuid(CudaUuid* uuid, CudaDevice device);
FAKE_EXPORT CudaResult cuDeviceGetPCIBusId(char* id, int length, CudaDevice device);
FAKE_EXPORT CudaResult cuDeviceTotalMem_v2(std::size_t* bytes, CudaDevice device);
FAKE_EXPORT CudaResult cuMemGetAllocationGranularity(std::size_t* bytes, const CudaMemProperties* properties,
                                                     int option);
FAKE_EXPORT CudaResult cuMemCreate(CudaMemHandle* handle, std::size_t size,
                                   const CudaMemProperties* properties, unsigned long long flags);
FAKE_EXPORT CudaResult cuMemRelease(CudaMemHandle handle);
FAKE_EXPORT CudaResult cuMemExportToShareableHandle(void* shareable, CudaMemHandle handle, int type,
                                                    unsigned long long flags);
FAKE_EXPORT CudaResult cuMemImportFromShareableHandle(CudaMemHandle* handle, void* shareable, int type);
FAKE_EXPORT CudaResult cuMemAddressReserve(CudaAddress* address, std::size_t size, std::size_t alignment,
                                           CudaAddress wanted, unsigned long long flags);
FAKE_EXPORT CudaResult cuMemAddressFree(CudaAddress address, std::size_t size);
FAKE_EXPORT CudaResult cuMemMap(CudaAddress address, std::size_t size, std::size_t offset,
                                CudaMemHandle handle, unsigned long long flags);
FAKE_EXPORT CudaResult cuMemUnmap(CudaAddress address, std::size_t size);
FAKE_EXPORT CudaResult cuMemSetAccess(CudaAddress address, std::size_t size, const CudaMemAccess* access,
                                      std::size_t count);
FAKE_EXPORT CudaResult cuMemGetAccess(unsigned long long* flags, const CudaMemLocation* location,
                                      CudaAddress address);
FAKE_EXPORT CudaResult cuCtxCreate_v2(CudaContext* context, unsigned flags, CudaDevice device);
FAKE_EXPORT CudaResult cuCtxDestroy_v2(CudaContext context);
FAKE_EXPORT CudaResult cuCtxPushCurrent_v2(CudaContext context);
FAKE_EXPORT CudaResult cuCtxPopCurrent_v2(CudaContext* context);
FAKE_EXPORT CudaResult cuCtxSetCurrent(CudaContext context);
FAKE_EXPORT CudaResult cuCtxGetCurrent(CudaContext* context);
FAKE_EXPORT CudaResult cuCtxGetDevice(CudaDevice* device);
FAKE_EXPORT CudaResult cuCtxSynchronize();
FAKE_EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device);
FAKE_EXPORT CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device);
FAKE_EXPORT CudaResult cuDevicePrimaryCtxReset_v2(CudaDevice device);
FAKE_EXPORT CudaResult cuDevicePrimaryCtxGetState(CudaDevice device, unsigned* flags, int* active);
FAKE_EXPORT CudaResult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes);
FAKE_EXPORT CudaResult cuMemAlloc_v2(CudaAddress* address, std::size_t size);
FAKE_EXPORT CudaResult cuMemFree_v2(CudaAddress address);
FAKE_EXPORT CudaResult cuMemHostAlloc(void** memory, std::size_t size, unsigned flags);
FAKE_EXPORT CudaResult cuMemFreeHost(void* memory);
FAKE_EXPORT CudaResult cuMemHostRegister_v2(void* memory, std::size_t size, unsigned flags);
FAKE_EXPORT CudaResult cuMemHostUnregister(void* memory);
FAKE_EXPORT CudaResult cuMemHostGetDevicePointer_v2(CudaAddress* address, void* memory, unsigned flags);
FAKE_EXPORT CudaResult cuStreamCreate(CudaStream* stream, unsigned flags);
FAKE_EXPORT CudaResult cuStreamDestroy_v2(CudaStream stream);
FAKE_EXPORT CudaResult cuStreamQuery(CudaStream stream);
FAKE_EXPORT CudaResult cuStreamSynchronize(CudaStream stream);
FAKE_EXPORT CudaResult cuStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags);
FAKE_EXPORT CudaResult cuStreamIsCapturing(CudaStream stream, int* status);
FAKE_EXPORT CudaResult cuThreadExchangeStreamCaptureMode(int* mode);
FAKE_EXPORT CudaResult cuStreamBeginCapture_v2(CudaStream stream, int mode);
FAKE_EXPORT CudaResult cuStreamEndCapture(CudaStream stream, void** graph);
FAKE_EXPORT CudaResult cuEventCreate(CudaEvent* event, unsigned flags);
FAKE_EXPORT CudaResult cuEventDestroy_v2(CudaEvent event);
FAKE_EXPORT CudaResult cuEventRecord(CudaEvent event, CudaStream stream);
FAKE_EXPORT CudaResult cuEventQuery(CudaEvent event);
FAKE_EXPORT CudaResult cuEventSynchronize(CudaEvent event);
FAKE_EXPORT CudaResult cuMemcpyHtoDAsync_v2(CudaAddress to, const void* from, std::size_t size,
                                            CudaStream stream);
FAKE_EXPORT CudaResult cuMemcpyDtoHAsync_v2(void* to, CudaAddress from, std::size_t size, CudaStream stream);
FAKE_EXPORT CudaResult cuMemcpyDtoDAsync_v2(CudaAddress to, CudaAddress from, std::size_t size,
                                            CudaStream stream);
FAKE_EXPORT CudaResult cuMemsetD8Async(CudaAddress to, unsigned char value, std::size_t count,
                                       CudaStream stream);
FAKE_EXPORT CudaResult cuMemsetD32Async(CudaAddress to, unsigned value, std::size_t count, CudaStream stream);
FAKE_EXPORT CudaResult cuModuleLoadData(CudaModule* module, const void* image);
FAKE_EXPORT CudaResult cuModuleUnload(CudaModule module);
FAKE_EXPORT CudaResult cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name);
FAKE_EXPORT CudaResult cuLaunchKernel(CudaFunction function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                      unsigned shared_bytes, CudaStream stream, void** parameters,
                                      void** extra);
FAKE_EXPORT CudaResult cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                           std::uint64_t flags, int* status);
FAKE_EXPORT CudaResult cuGetProcAddress(const char* symbol, void** address, int version, std::uint64_t flags);

}  // namespace penstock::fake
