// SPDX-License-Identifier: Apache-2.0
// The exported functions of the fake HIP runtime, for tests that link with it.
#pragma once

#include "tests/fakes/hip/entry.hpp"

namespace penstock::fake {

FAKE_EXPORT HipResult hipRuntimeGetVersion(int* version);
FAKE_EXPORT HipResult hipInit(unsigned flags);
FAKE_EXPORT const char* hipGetErrorName(HipResult error);
FAKE_EXPORT const char* hipGetErrorString(HipResult error);
FAKE_EXPORT HipResult hipGetDeviceCount(int* count);
FAKE_EXPORT HipResult hipDeviceGet(HipDevice* device, int ordinal);
FAKE_EXPORT HipResult hipDeviceGetName(char* name, int length, HipDevice device);
FAKE_EXPORT HipResult hipDeviceGetAttribute(int* value, int attribute, int device);
FAKE_EXPORT HipResult hipDeviceGetUuid(HipUuid* uuid, HipDevice device);
FAKE_EXPORT HipResult hipDeviceGetPCIBusId(char* id, int length, int device);
FAKE_EXPORT HipResult hipDeviceTotalMem(std::size_t* bytes, HipDevice device);
FAKE_EXPORT HipResult hipGetDevicePropertiesR0600(HipDeviceProperties600* properties, int device);
FAKE_EXPORT HipResult hipSetDevice(int device);
FAKE_EXPORT HipResult hipGetDevice(int* device);
FAKE_EXPORT HipResult hipDeviceSynchronize();
FAKE_EXPORT HipResult hipDeviceReset();
FAKE_EXPORT HipResult hipGetLastError();
FAKE_EXPORT HipResult hipPeekAtLastError();
FAKE_EXPORT HipResult hipMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes);
FAKE_EXPORT HipResult hipMemGetAllocationGranularity(std::size_t* bytes, const HipMemProperties* properties,
                                                     int option);
FAKE_EXPORT HipResult hipMemCreate(HipMemHandle* handle, std::size_t size, const HipMemProperties* properties,
                                   unsigned long long flags);
FAKE_EXPORT HipResult hipMemRelease(HipMemHandle handle);
FAKE_EXPORT HipResult hipMemExportToShareableHandle(void* shareable, HipMemHandle handle, int type,
                                                    unsigned long long flags);
FAKE_EXPORT HipResult hipMemImportFromShareableHandle(HipMemHandle* handle, void* shareable, int type);
FAKE_EXPORT HipResult hipMemAddressReserve(HipAddress* address, std::size_t size, std::size_t alignment,
                                           HipAddress wanted, unsigned long long flags);
FAKE_EXPORT HipResult hipMemAddressFree(HipAddress address, std::size_t size);
FAKE_EXPORT HipResult hipMemMap(HipAddress address, std::size_t size, std::size_t offset, HipMemHandle handle,
                                unsigned long long flags);
FAKE_EXPORT HipResult hipMemUnmap(HipAddress address, std::size_t size);
FAKE_EXPORT HipResult hipMemSetAccess(HipAddress address, std::size_t size, const HipMemAccess* access,
                                      std::size_t count);
FAKE_EXPORT HipResult hipMemGetAccess(unsigned long long* flags, const HipMemLocation* location,
                                      HipAddress address);
FAKE_EXPORT HipResult hipMalloc(HipAddress* address, std::size_t size);
FAKE_EXPORT HipResult hipFree(HipAddress address);
FAKE_EXPORT HipResult hipStreamCreateWithFlags(HipStream* stream, unsigned flags);
FAKE_EXPORT HipResult hipStreamDestroy(HipStream stream);
FAKE_EXPORT HipResult hipStreamQuery(HipStream stream);
FAKE_EXPORT HipResult hipStreamSynchronize(HipStream stream);
FAKE_EXPORT HipResult hipStreamWaitEvent(HipStream stream, HipEvent event, unsigned flags);
FAKE_EXPORT HipResult hipStreamIsCapturing(HipStream stream, int* status);
FAKE_EXPORT HipResult hipThreadExchangeStreamCaptureMode(int* mode);
FAKE_EXPORT HipResult hipStreamBeginCapture(HipStream stream, int mode);
FAKE_EXPORT HipResult hipStreamEndCapture(HipStream stream, void** graph);
FAKE_EXPORT HipResult hipEventCreateWithFlags(HipEvent* event, unsigned flags);
FAKE_EXPORT HipResult hipEventDestroy(HipEvent event);
FAKE_EXPORT HipResult hipEventRecord(HipEvent event, HipStream stream);
FAKE_EXPORT HipResult hipEventQuery(HipEvent event);
FAKE_EXPORT HipResult hipEventSynchronize(HipEvent event);
FAKE_EXPORT HipResult hipMemcpyHtoDAsync(HipAddress to, const void* from, std::size_t size, HipStream stream);
FAKE_EXPORT HipResult hipMemcpyDtoHAsync(void* to, HipAddress from, std::size_t size, HipStream stream);
FAKE_EXPORT HipResult hipMemcpyDtoDAsync(HipAddress to, HipAddress from, std::size_t size, HipStream stream);
FAKE_EXPORT HipResult hipMemsetD8Async(HipAddress to, unsigned char value, std::size_t count,
                                       HipStream stream);
FAKE_EXPORT HipResult hipMemsetD32Async(HipAddress to, int value, std::size_t count, HipStream stream);
FAKE_EXPORT HipResult hipHostMalloc(void** memory, std::size_t size, unsigned flags);
FAKE_EXPORT HipResult hipHostFree(void* memory);
FAKE_EXPORT HipResult hipHostRegister(void* memory, std::size_t size, unsigned flags);
FAKE_EXPORT HipResult hipHostUnregister(void* memory);
FAKE_EXPORT HipResult hipHostGetDevicePointer(HipAddress* address, void* memory, unsigned flags);
FAKE_EXPORT HipResult hipModuleLoadData(HipModule* module, const void* image);
FAKE_EXPORT HipResult hipModuleUnload(HipModule module);
FAKE_EXPORT HipResult hipModuleGetFunction(HipFunction* function, HipModule module, const char* name);
FAKE_EXPORT HipResult hipModuleLaunchKernel(HipFunction function, unsigned grid_x, unsigned grid_y,
                                            unsigned grid_z, unsigned block_x, unsigned block_y,
                                            unsigned block_z, unsigned shared_bytes, HipStream stream,
                                            void** parameters, void** extra);

}  // namespace penstock::fake
