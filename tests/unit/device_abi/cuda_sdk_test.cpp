// SPDX-License-Identifier: Apache-2.0
// Our CUDA interface against the toolkit's header. The comparison is made by the compiler; where the toolkit is not
// installed the test says so.
#include <gtest/gtest.h>

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/unit/device_abi/same_shape.hpp"

#ifdef PENSTOCK_HAS_CUDA_SDK
#include <cuda.h>
#include <cudaTypedefs.h>

namespace penstock::test {
namespace {

static_assert(same_value(cuda_success, CUDA_SUCCESS));
static_assert(same_value(cuda_error_invalid_value, CUDA_ERROR_INVALID_VALUE));
static_assert(same_value(cuda_error_out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same_value(cuda_error_not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same_value(cuda_error_deinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same_value(cuda_error_stub_library, CUDA_ERROR_STUB_LIBRARY));
static_assert(same_value(cuda_error_device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE));
static_assert(same_value(cuda_error_no_device, CUDA_ERROR_NO_DEVICE));
static_assert(same_value(cuda_error_invalid_device, CUDA_ERROR_INVALID_DEVICE));
static_assert(same_value(cuda_error_invalid_image, CUDA_ERROR_INVALID_IMAGE));
static_assert(same_value(cuda_error_invalid_context, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same_value(cuda_error_no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same_value(cuda_error_ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(same_value(cuda_error_invalid_ptx, CUDA_ERROR_INVALID_PTX));
static_assert(same_value(cuda_error_nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE));
static_assert(same_value(cuda_error_unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(same_value(cuda_error_operating_system, CUDA_ERROR_OPERATING_SYSTEM));
static_assert(same_value(cuda_error_invalid_handle, CUDA_ERROR_INVALID_HANDLE));
static_assert(same_value(cuda_error_illegal_state, CUDA_ERROR_ILLEGAL_STATE));
static_assert(same_value(cuda_error_not_found, CUDA_ERROR_NOT_FOUND));
static_assert(same_value(cuda_error_not_ready, CUDA_ERROR_NOT_READY));
static_assert(same_value(cuda_error_illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same_value(cuda_error_launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
static_assert(same_value(cuda_error_launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(same_value(cuda_error_context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED));
static_assert(same_value(cuda_error_assert, CUDA_ERROR_ASSERT));
static_assert(same_value(cuda_error_host_memory_already_registered,
                         CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
static_assert(same_value(cuda_error_host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
static_assert(same_value(cuda_error_hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(same_value(cuda_error_illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(same_value(cuda_error_misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(same_value(cuda_error_invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(same_value(cuda_error_invalid_pc, CUDA_ERROR_INVALID_PC));
static_assert(same_value(cuda_error_launch_failed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same_value(cuda_error_not_permitted, CUDA_ERROR_NOT_PERMITTED));
static_assert(same_value(cuda_error_not_supported, CUDA_ERROR_NOT_SUPPORTED));
static_assert(same_value(cuda_error_system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY));
static_assert(same_value(cuda_error_system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
static_assert(same_value(cuda_error_compat_not_supported_on_device,
                         CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE));
static_assert(same_value(cuda_error_mps_connection_failed, CUDA_ERROR_MPS_CONNECTION_FAILED));
static_assert(same_value(cuda_error_mps_rpc_failure, CUDA_ERROR_MPS_RPC_FAILURE));
static_assert(same_value(cuda_error_mps_server_not_ready, CUDA_ERROR_MPS_SERVER_NOT_READY));
static_assert(same_value(cuda_error_mps_max_clients_reached, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED));
static_assert(same_value(cuda_error_mps_max_connections_reached, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED));
static_assert(same_value(cuda_error_mps_client_terminated, CUDA_ERROR_MPS_CLIENT_TERMINATED));
static_assert(same_value(cuda_error_stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
static_assert(same_value(cuda_error_stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
static_assert(same_value(cuda_error_stream_capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT));
static_assert(same_value(cuda_error_unknown, CUDA_ERROR_UNKNOWN));

static_assert(same_value(cuda_attribute_max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same_value(cuda_attribute_multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same_value(cuda_attribute_integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED));
static_assert(same_value(cuda_attribute_compute_mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE));
static_assert(same_value(cuda_attribute_pci_bus_id, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
static_assert(same_value(cuda_attribute_pci_device_id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
static_assert(same_value(cuda_attribute_async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT));
static_assert(same_value(cuda_attribute_unified_addressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING));
static_assert(same_value(cuda_attribute_pci_domain_id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
static_assert(same_value(cuda_attribute_compute_capability_major,
                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same_value(cuda_attribute_compute_capability_minor,
                         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same_value(cuda_attribute_host_register_supported,
                         CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED));
static_assert(same_value(cuda_attribute_virtual_memory_management_supported,
                         CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
static_assert(same_value(cuda_attribute_posix_file_descriptor_supported,
                         CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
static_assert(same_value(cuda_compute_mode_prohibited, CU_COMPUTEMODE_PROHIBITED));
static_assert(same_value(cuda_compute_mode_exclusive_process, CU_COMPUTEMODE_EXCLUSIVE_PROCESS));
static_assert(same_value(cuda_mem_handle_posix_fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
static_assert(same_value(cuda_mem_location_device, CU_MEM_LOCATION_TYPE_DEVICE));
static_assert(same_value(cuda_mem_allocation_pinned, CU_MEM_ALLOCATION_TYPE_PINNED));
static_assert(same_value(cuda_mem_access_read, CU_MEM_ACCESS_FLAGS_PROT_READ));
static_assert(same_value(cuda_mem_access_read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
static_assert(same_value(cuda_mem_granularity_minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
static_assert(same_value(cuda_mem_granularity_recommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
static_assert(same_value(cuda_context_schedule_blocking_sync, CU_CTX_SCHED_BLOCKING_SYNC));
static_assert(same_value(cuda_stream_non_blocking, CU_STREAM_NON_BLOCKING));
static_assert(same_value(cuda_event_blocking_sync, CU_EVENT_BLOCKING_SYNC));
static_assert(same_value(cuda_event_disable_timing, CU_EVENT_DISABLE_TIMING));
static_assert(same_value(cuda_host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE));
static_assert(same_value(cuda_host_alloc_device_map, CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(same_value(cuda_host_register_portable, CU_MEMHOSTREGISTER_PORTABLE));
static_assert(same_value(cuda_host_register_device_map, CU_MEMHOSTREGISTER_DEVICEMAP));
static_assert(same_value(cuda_host_register_read_only, CU_MEMHOSTREGISTER_READ_ONLY));
static_assert(same_value(cuda_capture_global, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(same_value(cuda_capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(same_value(cuda_capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(same_value(cuda_capture_none, CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(same_value(cuda_capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE));
static_assert(same_value(cuda_capture_invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED));

static_assert(sizeof(CudaMemProperties) == sizeof(CUmemAllocationProp));
static_assert(alignof(CudaMemProperties) == alignof(CUmemAllocationProp));
static_assert(offsetof(CudaMemProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(CudaMemProperties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(CudaMemProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(CudaMemProperties, win32_meta_data) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(CudaMemProperties, compression_type) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(CudaMemLocation) == sizeof(CUmemLocation));
static_assert(offsetof(CudaMemLocation, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(CudaMemAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(CudaMemAccess, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(CudaMemAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(CudaUuid) == sizeof(CUuuid));

}  // namespace
}  // namespace penstock::test
#endif

TEST(CudaAbi, ValuesAndLayoutsEqualTheToolkits) {
#ifndef PENSTOCK_HAS_CUDA_SDK
  GTEST_SKIP() << "requires cuda.h and cudaTypedefs.h of a CUDA toolkit (12 or later)";
#endif
}
