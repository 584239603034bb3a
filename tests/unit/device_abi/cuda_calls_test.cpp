// SPDX-License-Identifier: Apache-2.0
// Our CUDA function types against the toolkit's, each at the version that we ask cuGetProcAddress for.
#include <gtest/gtest.h>

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/unit/device_abi/same_shape.hpp"

#ifdef PENSTOCK_HAS_CUDA_SDK
#include <cuda.h>
#include <cudaTypedefs.h>

namespace penstock::test {
namespace {

static_assert(same_shape<CudaGetProcAddressV2, PFN_cuGetProcAddress_v12000>);
static_assert(same_shape<CudaGetProcAddressV1, PFN_cuGetProcAddress_v11030>);
static_assert(same_shape<CudaInit, PFN_cuInit_v2000>);
static_assert(same_shape<CudaDriverGetVersion, PFN_cuDriverGetVersion_v2020>);
static_assert(same_shape<CudaGetErrorName, PFN_cuGetErrorName_v6000>);
static_assert(same_shape<CudaGetErrorString, PFN_cuGetErrorString_v6000>);
static_assert(same_shape<CudaDeviceGetCount, PFN_cuDeviceGetCount_v2000>);
static_assert(same_shape<CudaDeviceGet, PFN_cuDeviceGet_v2000>);
static_assert(same_shape<CudaDeviceGetName, PFN_cuDeviceGetName_v2000>);
static_assert(same_shape<CudaDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000>);
static_assert(same_shape<CudaDeviceGetUuid, PFN_cuDeviceGetUuid_v11040>);
static_assert(same_shape<CudaDeviceGetPciBusId, PFN_cuDeviceGetPCIBusId_v4010>);
static_assert(same_shape<CudaDeviceTotalMem, PFN_cuDeviceTotalMem_v3020>);

static_assert(same_shape<CudaMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020>);
static_assert(same_shape<CudaMemCreate, PFN_cuMemCreate_v10020>);
static_assert(same_shape<CudaMemRelease, PFN_cuMemRelease_v10020>);
static_assert(same_shape<CudaMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020>);
static_assert(same_shape<CudaMemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020>);
static_assert(same_shape<CudaMemAddressReserve, PFN_cuMemAddressReserve_v10020>);
static_assert(same_shape<CudaMemAddressFree, PFN_cuMemAddressFree_v10020>);
static_assert(same_shape<CudaMemMap, PFN_cuMemMap_v10020>);
static_assert(same_shape<CudaMemUnmap, PFN_cuMemUnmap_v10020>);
static_assert(same_shape<CudaMemSetAccess, PFN_cuMemSetAccess_v10020>);
static_assert(same_shape<CudaMemGetAccess, PFN_cuMemGetAccess_v10020>);

static_assert(same_shape<CudaContextCreate, PFN_cuCtxCreate_v3020>);
static_assert(same_shape<CudaContextDestroy, PFN_cuCtxDestroy_v4000>);
static_assert(same_shape<CudaContextPush, PFN_cuCtxPushCurrent_v4000>);
static_assert(same_shape<CudaContextPop, PFN_cuCtxPopCurrent_v4000>);
static_assert(same_shape<CudaContextSetCurrent, PFN_cuCtxSetCurrent_v4000>);
static_assert(same_shape<CudaContextGetCurrent, PFN_cuCtxGetCurrent_v4000>);
static_assert(same_shape<CudaContextGetDevice, PFN_cuCtxGetDevice_v2000>);
static_assert(same_shape<CudaContextSynchronize, PFN_cuCtxSynchronize_v2000>);
static_assert(same_shape<CudaPrimaryContextRetain, PFN_cuDevicePrimaryCtxRetain_v7000>);
static_assert(same_shape<CudaPrimaryContextRelease, PFN_cuDevicePrimaryCtxRelease_v11000>);
static_assert(same_shape<CudaPrimaryContextGetState, PFN_cuDevicePrimaryCtxGetState_v7000>);

static_assert(same_shape<CudaMemGetInfo, PFN_cuMemGetInfo_v3020>);
static_assert(same_shape<CudaMemAlloc, PFN_cuMemAlloc_v3020>);
static_assert(same_shape<CudaMemFree, PFN_cuMemFree_v3020>);
static_assert(same_shape<CudaMemHostAlloc, PFN_cuMemHostAlloc_v2020>);
static_assert(same_shape<CudaMemFreeHost, PFN_cuMemFreeHost_v2000>);
static_assert(same_shape<CudaMemHostRegister, PFN_cuMemHostRegister_v6050>);
static_assert(same_shape<CudaMemHostUnregister, PFN_cuMemHostUnregister_v4000>);
static_assert(same_shape<CudaMemHostGetDevicePointer, PFN_cuMemHostGetDevicePointer_v3020>);
static_assert(same_shape<CudaMemcpyHtoDAsync, PFN_cuMemcpyHtoDAsync_v3020>);
static_assert(same_shape<CudaMemcpyDtoHAsync, PFN_cuMemcpyDtoHAsync_v3020>);
static_assert(same_shape<CudaMemcpyDtoDAsync, PFN_cuMemcpyDtoDAsync_v3020>);
static_assert(same_shape<CudaMemsetD8Async, PFN_cuMemsetD8Async_v3020>);
static_assert(same_shape<CudaMemsetD32Async, PFN_cuMemsetD32Async_v3020>);

static_assert(same_shape<CudaStreamCreate, PFN_cuStreamCreate_v2000>);
static_assert(same_shape<CudaStreamDestroy, PFN_cuStreamDestroy_v4000>);
static_assert(same_shape<CudaStreamQuery, PFN_cuStreamQuery_v2000>);
static_assert(same_shape<CudaStreamSynchronize, PFN_cuStreamSynchronize_v2000>);
static_assert(same_shape<CudaStreamWaitEvent, PFN_cuStreamWaitEvent_v3020>);
static_assert(same_shape<CudaStreamIsCapturing, PFN_cuStreamIsCapturing_v10000>);
static_assert(same_shape<CudaThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010>);
static_assert(same_shape<CudaEventCreate, PFN_cuEventCreate_v2000>);
static_assert(same_shape<CudaEventDestroy, PFN_cuEventDestroy_v4000>);
static_assert(same_shape<CudaEventRecord, PFN_cuEventRecord_v2000>);
static_assert(same_shape<CudaEventQuery, PFN_cuEventQuery_v2000>);
static_assert(same_shape<CudaEventSynchronize, PFN_cuEventSynchronize_v2000>);
static_assert(same_shape<CudaModuleLoadData, PFN_cuModuleLoadData_v2000>);
static_assert(same_shape<CudaModuleUnload, PFN_cuModuleUnload_v2000>);
static_assert(same_shape<CudaModuleGetFunction, PFN_cuModuleGetFunction_v2000>);
static_assert(same_shape<CudaLaunchKernel, PFN_cuLaunchKernel_v4000>);

// The comparison itself can fail.
static_assert(!same_shape<CudaMemMap, PFN_cuMemUnmap_v10020>);
static_assert(!same_shape<CudaMemGetInfo, PFN_cuMemAlloc_v3020>);

}  // namespace
}  // namespace penstock::test
#endif

TEST(CudaAbi, FunctionTypesEqualTheToolkits) {
#ifndef PENSTOCK_HAS_CUDA_SDK
  GTEST_SKIP() << "requires cuda.h and cudaTypedefs.h of a CUDA toolkit (12 or later)";
#endif
}
