// SPDX-License-Identifier: Apache-2.0
// Our HIP interface against the SDK's header, whichever version is installed. The comparison is made by the compiler;
// where no SDK is installed the test says so.
#include <gtest/gtest.h>

#include "dataplane/device/hip/hip_abi.h"
#include "tests/unit/device_abi/same_shape.hpp"

#ifdef PENSTOCK_HAS_HIP_SDK
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

namespace penstock::test {
namespace {

static_assert(same_value(hip_success, hipSuccess));
static_assert(same_value(hip_error_invalid_value, hipErrorInvalidValue));
static_assert(same_value(hip_error_out_of_memory, hipErrorOutOfMemory));
static_assert(same_value(hip_error_not_initialized, hipErrorNotInitialized));
static_assert(same_value(hip_error_deinitialized, hipErrorDeinitialized));
static_assert(same_value(hip_error_insufficient_driver, hipErrorInsufficientDriver));
static_assert(same_value(hip_error_invalid_device_function, hipErrorInvalidDeviceFunction));
static_assert(same_value(hip_error_no_device, hipErrorNoDevice));
static_assert(same_value(hip_error_invalid_device, hipErrorInvalidDevice));
static_assert(same_value(hip_error_invalid_image, hipErrorInvalidImage));
static_assert(same_value(hip_error_invalid_context, hipErrorInvalidContext));
static_assert(same_value(hip_error_map_failed, hipErrorMapFailed));
static_assert(same_value(hip_error_no_binary_for_gpu, hipErrorNoBinaryForGpu));
static_assert(same_value(hip_error_ecc_not_correctable, hipErrorECCNotCorrectable));
static_assert(same_value(hip_error_operating_system, hipErrorOperatingSystem));
static_assert(same_value(hip_error_invalid_handle, hipErrorInvalidHandle));
static_assert(same_value(hip_error_not_found, hipErrorNotFound));
static_assert(same_value(hip_error_not_ready, hipErrorNotReady));
static_assert(same_value(hip_error_illegal_address, hipErrorIllegalAddress));
static_assert(same_value(hip_error_launch_out_of_resources, hipErrorLaunchOutOfResources));
static_assert(same_value(hip_error_launch_timeout, hipErrorLaunchTimeOut));
static_assert(same_value(hip_error_context_is_destroyed, hipErrorContextIsDestroyed));
static_assert(same_value(hip_error_assert, hipErrorAssert));
static_assert(same_value(hip_error_host_memory_already_registered, hipErrorHostMemoryAlreadyRegistered));
static_assert(same_value(hip_error_host_memory_not_registered, hipErrorHostMemoryNotRegistered));
static_assert(same_value(hip_error_launch_failure, hipErrorLaunchFailure));
static_assert(same_value(hip_error_not_supported, hipErrorNotSupported));
static_assert(same_value(hip_error_stream_capture_unsupported, hipErrorStreamCaptureUnsupported));
static_assert(same_value(hip_error_stream_capture_invalidated, hipErrorStreamCaptureInvalidated));
static_assert(same_value(hip_error_stream_capture_implicit, hipErrorStreamCaptureImplicit));
static_assert(same_value(hip_error_unknown, hipErrorUnknown));
static_assert(same_value(hip_error_runtime_memory, hipErrorRuntimeMemory));
static_assert(same_value(hip_error_runtime_other, hipErrorRuntimeOther));

static_assert(same_value(hip_attribute_compute_mode, hipDeviceAttributeComputeMode));
static_assert(same_value(hip_attribute_integrated, hipDeviceAttributeIntegrated));
static_assert(same_value(hip_attribute_compute_capability_major, hipDeviceAttributeComputeCapabilityMajor));
static_assert(same_value(hip_attribute_max_threads_per_block, hipDeviceAttributeMaxThreadsPerBlock));
static_assert(same_value(hip_attribute_compute_capability_minor, hipDeviceAttributeComputeCapabilityMinor));
static_assert(same_value(hip_attribute_multiprocessor_count, hipDeviceAttributeMultiprocessorCount));
static_assert(same_value(hip_attribute_pci_bus_id, hipDeviceAttributePciBusId));
static_assert(same_value(hip_attribute_pci_device_id, hipDeviceAttributePciDeviceId));
static_assert(same_value(hip_attribute_pci_domain_id, hipDeviceAttributePciDomainID));
static_assert(same_value(hip_attribute_warp_size, hipDeviceAttributeWarpSize));
static_assert(same_value(hip_mem_handle_posix_fd, hipMemHandleTypePosixFileDescriptor));
static_assert(same_value(hip_mem_location_device, hipMemLocationTypeDevice));
static_assert(same_value(hip_mem_allocation_pinned, hipMemAllocationTypePinned));
static_assert(same_value(hip_mem_access_read, hipMemAccessFlagsProtRead));
static_assert(same_value(hip_mem_access_read_write, hipMemAccessFlagsProtReadWrite));
static_assert(same_value(hip_mem_granularity_minimum, hipMemAllocationGranularityMinimum));
static_assert(same_value(hip_mem_granularity_recommended, hipMemAllocationGranularityRecommended));
static_assert(same_value(hip_stream_non_blocking, hipStreamNonBlocking));
static_assert(same_value(hip_event_blocking_sync, hipEventBlockingSync));
static_assert(same_value(hip_event_disable_timing, hipEventDisableTiming));
static_assert(same_value(hip_host_portable, hipHostMallocPortable) &&
              same_value(hip_host_portable, hipHostRegisterPortable));
static_assert(same_value(hip_host_mapped, hipHostMallocMapped) &&
              same_value(hip_host_mapped, hipHostRegisterMapped));
static_assert(same_value(hip_capture_none, hipStreamCaptureStatusNone));
static_assert(same_value(hip_capture_active, hipStreamCaptureStatusActive));
static_assert(same_value(hip_capture_invalidated, hipStreamCaptureStatusInvalidated));

#if HIP_VERSION >= 50300000
static_assert(same_value(hip_attribute_virtual_memory_management_supported,
                         hipDeviceAttributeVirtualMemoryManagementSupported));
static_assert(offsetof(HipMemProperties, type) == offsetof(hipMemAllocationProp, type));
static_assert(offsetof(HipMemProperties, handle_types) == 4);
static_assert(offsetof(HipMemProperties, location) == offsetof(hipMemAllocationProp, location));
static_assert(offsetof(HipMemProperties, win32_meta_data) ==
              offsetof(hipMemAllocationProp, win32HandleMetaData));
static_assert(offsetof(HipMemProperties, compression_type) == offsetof(hipMemAllocationProp, allocFlags));
#else
static_assert(offsetof(HipMemProperties52, type) == offsetof(hipMemAllocationProp, type));
static_assert(offsetof(HipMemProperties52, handle_types) ==
              offsetof(hipMemAllocationProp, requestedHandleType));
static_assert(offsetof(HipMemProperties52, location) == offsetof(hipMemAllocationProp, location));
static_assert(offsetof(HipMemProperties52, win32_meta_data) ==
              offsetof(hipMemAllocationProp, win32HandleMetaData));
static_assert(offsetof(HipMemProperties52, usage) == offsetof(hipMemAllocationProp, usage));
static_assert(offsetof(HipMemProperties, type) != offsetof(hipMemAllocationProp, type), "the trap of 5.2");
#endif
#if HIP_VERSION >= 60000000
static_assert(offsetof(HipDeviceProperties600, uuid) == offsetof(hipDeviceProp_t, uuid));
static_assert(offsetof(HipDeviceProperties600, architecture) == offsetof(hipDeviceProp_t, gcnArchName));
static_assert(sizeof(HipDeviceProperties600) > sizeof(hipDeviceProp_t));
#endif
static_assert(sizeof(HipMemProperties) == sizeof(hipMemAllocationProp));
static_assert(sizeof(HipMemLocation) == sizeof(hipMemLocation));
static_assert(sizeof(HipMemAccess) == sizeof(hipMemAccessDesc));
static_assert(offsetof(HipMemAccess, flags) == offsetof(hipMemAccessDesc, flags));
static_assert(sizeof(HipUuid) == sizeof(hipUUID));

// hipMalloc and hipHostMalloc are overloaded by templates in the header: their types are asked for.
template <class F>
constexpr bool is_declared(F* /*function*/) {
  return true;
}
static_assert(same_shape<HipRuntimeGetVersion, decltype(&hipRuntimeGetVersion)>);
static_assert(same_shape<HipInit, decltype(&hipInit)>);
static_assert(same_shape<HipGetErrorName, decltype(&hipGetErrorName)>);
static_assert(same_shape<HipGetErrorString, decltype(&hipGetErrorString)>);
static_assert(same_shape<HipGetDeviceCount, decltype(&hipGetDeviceCount)>);
static_assert(same_shape<HipDeviceGet, decltype(&hipDeviceGet)>);
static_assert(same_shape<HipDeviceGetName, decltype(&hipDeviceGetName)>);
static_assert(same_shape<HipDeviceGetAttribute, decltype(&hipDeviceGetAttribute)>);
static_assert(same_shape<HipDeviceGetUuid, decltype(&hipDeviceGetUuid)>);
static_assert(same_shape<HipDeviceGetPciBusId, decltype(&hipDeviceGetPCIBusId)>);
static_assert(same_shape<HipDeviceTotalMem, decltype(&hipDeviceTotalMem)>);
static_assert(same_shape<HipSetDevice, decltype(&hipSetDevice)>);
static_assert(same_shape<HipGetDevice, decltype(&hipGetDevice)>);
static_assert(same_shape<HipDeviceSynchronize, decltype(&hipDeviceSynchronize)>);
static_assert(same_shape<HipGetLastError, decltype(&hipGetLastError)>);
static_assert(same_shape<HipPeekAtLastError, decltype(&hipPeekAtLastError)>);
static_assert(same_shape<HipMemGetAllocationGranularity, decltype(&hipMemGetAllocationGranularity)>);
static_assert(same_shape<HipMemCreate, decltype(&hipMemCreate)>);
static_assert(same_shape<HipMemRelease, decltype(&hipMemRelease)>);
static_assert(same_shape<HipMemExportToShareableHandle, decltype(&hipMemExportToShareableHandle)>);
static_assert(same_shape<HipMemImportFromShareableHandle, decltype(&hipMemImportFromShareableHandle)>);
static_assert(same_shape<HipMemAddressReserve, decltype(&hipMemAddressReserve)>);
static_assert(same_shape<HipMemAddressFree, decltype(&hipMemAddressFree)>);
static_assert(same_shape<HipMemMap, decltype(&hipMemMap)>);
static_assert(same_shape<HipMemUnmap, decltype(&hipMemUnmap)>);
static_assert(same_shape<HipMemSetAccess, decltype(&hipMemSetAccess)>);
static_assert(same_shape<HipMemGetAccess, decltype(&hipMemGetAccess)>);
static_assert(same_shape<HipMemGetInfo, decltype(&hipMemGetInfo)>);
static_assert(is_declared<hipError_t(void**, size_t)>(&hipMalloc));
static_assert(is_declared<hipError_t(void**, size_t, unsigned)>(&hipHostMalloc));
static_assert(same_shape<HipFree, decltype(&hipFree)>);
static_assert(same_shape<HipHostFree, decltype(&hipHostFree)>);
static_assert(same_shape<HipHostRegister, decltype(&hipHostRegister)>);
static_assert(same_shape<HipHostUnregister, decltype(&hipHostUnregister)>);
static_assert(same_shape<HipHostGetDevicePointer, decltype(&hipHostGetDevicePointer)>);
static_assert(same_shape<HipMemcpyHtoDAsync, decltype(&hipMemcpyHtoDAsync)>);
static_assert(same_shape<HipMemcpyDtoHAsync, decltype(&hipMemcpyDtoHAsync)>);
static_assert(same_shape<HipMemcpyDtoDAsync, decltype(&hipMemcpyDtoDAsync)>);
static_assert(same_shape<HipMemsetD8Async, decltype(&hipMemsetD8Async)>);
static_assert(same_shape<HipMemsetD32Async, decltype(&hipMemsetD32Async)>);
static_assert(same_shape<HipStreamCreateWithFlags, decltype(&hipStreamCreateWithFlags)>);
static_assert(same_shape<HipStreamDestroy, decltype(&hipStreamDestroy)>);
static_assert(same_shape<HipStreamQuery, decltype(&hipStreamQuery)>);
static_assert(same_shape<HipStreamSynchronize, decltype(&hipStreamSynchronize)>);
static_assert(same_shape<HipStreamWaitEvent, decltype(&hipStreamWaitEvent)>);
static_assert(same_shape<HipStreamIsCapturing, decltype(&hipStreamIsCapturing)>);
static_assert(same_shape<HipThreadExchangeStreamCaptureMode, decltype(&hipThreadExchangeStreamCaptureMode)>);
static_assert(same_shape<HipEventCreateWithFlags, decltype(&hipEventCreateWithFlags)>);
static_assert(same_shape<HipEventDestroy, decltype(&hipEventDestroy)>);
static_assert(same_shape<HipEventRecord, decltype(&hipEventRecord)>);
static_assert(same_shape<HipEventQuery, decltype(&hipEventQuery)>);
static_assert(same_shape<HipEventSynchronize, decltype(&hipEventSynchronize)>);
static_assert(same_shape<HipModuleLoadData, decltype(&hipModuleLoadData)>);
static_assert(same_shape<HipModuleUnload, decltype(&hipModuleUnload)>);
static_assert(same_shape<HipModuleGetFunction, decltype(&hipModuleGetFunction)>);
static_assert(same_shape<HipModuleLaunchKernel, decltype(&hipModuleLaunchKernel)>);

}  // namespace
}  // namespace penstock::test
#endif

TEST(HipAbi, ValuesLayoutsAndFunctionTypesEqualTheSdks) {
#ifndef PENSTOCK_HAS_HIP_SDK
  GTEST_SKIP() << "requires hip/hip_runtime_api.h (libamdhip64-dev, or ROCm)";
#endif
}
