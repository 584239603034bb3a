// SPDX-License-Identifier: Apache-2.0
// What we use of the CUDA driver's binary interface, in our own words. No vendor header is included anywhere in the
// service; a test compares this file with the SDK's headers where they are installed.
//
// Beside each function type stand the symbol, the driver version to ask cuGetProcAddress for, and the exported name
// for a plain dlsym where that one differs. Asking for a version above the driver's own is refused: never ask for more.
#pragma once

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
namespace penstock {
#else
#include <assert.h>
#endif

typedef int
    CudaResult;  // A CudaError; a plain int, because drivers may answer values that are newer than this list.
enum CudaError {
  cuda_success = 0,
  cuda_error_invalid_value = 1,
  cuda_error_out_of_memory = 2,
  cuda_error_not_initialized = 3,
  cuda_error_deinitialized = 4,
  cuda_error_stub_library = 34,  // The toolkit's link-time stub: to be treated as no GPU.
  cuda_error_device_unavailable = 46,
  cuda_error_no_device = 100,
  cuda_error_invalid_device = 101,
  cuda_error_invalid_image = 200,
  cuda_error_invalid_context = 201,
  cuda_error_no_binary_for_gpu = 209,
  cuda_error_ecc_uncorrectable = 214,
  cuda_error_invalid_ptx = 218,
  cuda_error_nvlink_uncorrectable = 220,
  cuda_error_unsupported_ptx_version = 222,
  cuda_error_contained = 226,
  cuda_error_operating_system = 304,
  cuda_error_invalid_handle = 400,
  cuda_error_illegal_state = 401,
  cuda_error_not_found = 500,
  cuda_error_not_ready = 600,  // The answer of a query whose work still runs; not a failure.
  cuda_error_illegal_address = 700,
  cuda_error_launch_out_of_resources = 701,
  cuda_error_launch_timeout = 702,
  cuda_error_context_is_destroyed = 709,
  cuda_error_assert = 710,
  cuda_error_host_memory_already_registered = 712,
  cuda_error_host_memory_not_registered = 713,
  cuda_error_hardware_stack_error = 714,
  cuda_error_illegal_instruction = 715,
  cuda_error_misaligned_address = 716,
  cuda_error_invalid_address_space = 717,
  cuda_error_invalid_pc = 718,
  cuda_error_launch_failed = 719,
  cuda_error_not_permitted = 800,
  cuda_error_not_supported = 801,
  cuda_error_system_not_ready = 802,
  cuda_error_system_driver_mismatch = 803,
  cuda_error_compat_not_supported_on_device = 804,
  cuda_error_mps_connection_failed = 805,
  cuda_error_mps_rpc_failure = 806,
  cuda_error_mps_server_not_ready = 807,
  cuda_error_mps_max_clients_reached = 808,
  cuda_error_mps_max_connections_reached = 809,
  cuda_error_mps_client_terminated = 810,
  cuda_error_stream_capture_unsupported = 900,
  cuda_error_stream_capture_invalidated = 901,
  cuda_error_stream_capture_implicit = 906,
  cuda_error_unknown = 999,
};

enum CudaDeviceAttribute {
  cuda_attribute_max_threads_per_block = 1,
  cuda_attribute_multiprocessor_count = 16,
  cuda_attribute_integrated = 18,  // Shares the host's memory.
  cuda_attribute_compute_mode = 20,
  cuda_attribute_pci_bus_id = 33,
  cuda_attribute_pci_device_id = 34,
  cuda_attribute_async_engine_count = 40,
  cuda_attribute_unified_addressing = 41,
  cuda_attribute_pci_domain_id = 50,
  cuda_attribute_compute_capability_major = 75,
  cuda_attribute_compute_capability_minor = 76,
  cuda_attribute_host_register_supported = 99,
  cuda_attribute_virtual_memory_management_supported = 102,
  cuda_attribute_posix_file_descriptor_supported = 103,
};
enum CudaComputeMode {
  cuda_compute_mode_default = 0,
  cuda_compute_mode_prohibited = 2,
  cuda_compute_mode_exclusive_process = 3,
};
enum CudaMemHandleType { cuda_mem_handle_none = 0, cuda_mem_handle_posix_fd = 1 };
enum CudaMemLocationType { cuda_mem_location_invalid = 0, cuda_mem_location_device = 1 };
enum CudaMemAllocationType { cuda_mem_allocation_pinned = 1 };
enum CudaMemAccessFlags {
  cuda_mem_access_none = 0,
  cuda_mem_access_read = 1,
  cuda_mem_access_read_write = 3
};
enum CudaMemGranularity { cuda_mem_granularity_minimum = 0, cuda_mem_granularity_recommended = 1 };
enum CudaContextFlags { cuda_context_schedule_auto = 0, cuda_context_schedule_blocking_sync = 4 };
enum CudaStreamFlags { cuda_stream_non_blocking = 1 };  // Does not wait for the null stream.
enum CudaEventFlags { cuda_event_blocking_sync = 1, cuda_event_disable_timing = 2 };
enum CudaHostAllocFlags { cuda_host_alloc_portable = 1, cuda_host_alloc_device_map = 2 };
enum CudaHostRegisterFlags {
  cuda_host_register_portable = 1,
  cuda_host_register_device_map = 2,
  cuda_host_register_read_only = 8,
};
enum CudaCaptureMode { cuda_capture_global = 0, cuda_capture_thread_local = 1, cuda_capture_relaxed = 2 };
enum CudaCaptureStatus { cuda_capture_none = 0, cuda_capture_active = 1, cuda_capture_invalidated = 2 };
enum CudaProcAddressFlags { cuda_proc_address_default = 0, cuda_proc_address_legacy_stream = 1 };
enum CudaProcAddressStatus {
  cuda_proc_address_found = 0,
  cuda_proc_address_not_found = 1,
  cuda_proc_address_version_not_sufficient = 2,
};

typedef int CudaDevice;  // An ordinal: it changes with CUDA_VISIBLE_DEVICES and identifies nothing.
typedef unsigned long long CudaAddress;
typedef unsigned long long CudaMemHandle;
typedef struct CudaContextState* CudaContext;
typedef struct CudaStreamState* CudaStream;  // Null is the legacy default stream.
typedef struct CudaEventState* CudaEvent;
typedef struct CudaModuleState* CudaModule;
typedef struct CudaFunctionState* CudaFunction;

typedef struct CudaUuid {
  unsigned char bytes[16];
} CudaUuid;
typedef struct CudaMemLocation {
  int type;  // CudaMemLocationType
  int id;    // CudaDevice
} CudaMemLocation;
// To be zeroed before it is filled: reserved bytes must be 0.
typedef struct CudaMemProperties {
  int type;          // CudaMemAllocationType
  int handle_types;  // CudaMemHandleType
  CudaMemLocation location;
  void* win32_meta_data;
  unsigned char compression_type;
  unsigned char gpu_direct_rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
} CudaMemProperties;
typedef struct CudaMemAccess {
  CudaMemLocation location;
  int flags;  // CudaMemAccessFlags
} CudaMemAccess;

static_assert(sizeof(CudaUuid) == 16, "CUuuid");
static_assert(sizeof(CudaMemLocation) == 8, "CUmemLocation");
static_assert(sizeof(CudaMemProperties) == 32, "CUmemAllocationProp");
static_assert(offsetof(CudaMemProperties, handle_types) == 4, "CUmemAllocationProp");
static_assert(offsetof(CudaMemProperties, location) == 8, "CUmemAllocationProp");
static_assert(offsetof(CudaMemProperties, win32_meta_data) == 16, "CUmemAllocationProp");
static_assert(offsetof(CudaMemProperties, compression_type) == 24, "CUmemAllocationProp");
static_assert(offsetof(CudaMemProperties, usage) == 26, "CUmemAllocationProp");
static_assert(sizeof(CudaMemAccess) == 12, "CUmemAccessDesc");
static_assert(offsetof(CudaMemAccess, flags) == 8, "CUmemAccessDesc");
static_assert(sizeof(CudaAddress) == 8 && sizeof(CudaMemHandle) == 8, "handles are 64 bits");

// The way to all others. cuGetProcAddress_v2 (from 12.0) by dlsym, else cuGetProcAddress (from 11.3), else dlsym alone.
// An unknown symbol is success with a null address; a version above the driver's is cuda_error_invalid_value.
typedef CudaResult (*CudaGetProcAddressV2)(const char* symbol, void** address, int version, uint64_t flags,
                                           int* status);
typedef CudaResult (*CudaGetProcAddressV1)(const char* symbol, void** address, int version, uint64_t flags);

// Needs no context.
typedef CudaResult (*CudaInit)(unsigned flags);  // cuInit 2000
typedef CudaResult (*CudaDriverGetVersion)(
    int* version);  // cuDriverGetVersion 2020; 1000 * major + 10 * minor
typedef CudaResult (*CudaGetErrorName)(CudaResult error, const char** name);         // cuGetErrorName 6000
typedef CudaResult (*CudaGetErrorString)(CudaResult error, const char** text);       // cuGetErrorString 6000
typedef CudaResult (*CudaDeviceGetCount)(int* count);                                // cuDeviceGetCount 2000
typedef CudaResult (*CudaDeviceGet)(CudaDevice* device, int ordinal);                // cuDeviceGet 2000
typedef CudaResult (*CudaDeviceGetName)(char* name, int length, CudaDevice device);  // cuDeviceGetName 2000
typedef CudaResult (*CudaDeviceGetAttribute)(int* value, int attribute,
                                             CudaDevice device);  // cuDeviceGetAttribute 2000
// cuDeviceGetUuid 11040, plain cuDeviceGetUuid_v2: under MIG it is the instance's.
typedef CudaResult (*CudaDeviceGetUuid)(CudaUuid* uuid, CudaDevice device);
typedef CudaResult (*CudaDeviceGetPciBusId)(char* id, int length,
                                            CudaDevice device);  // cuDeviceGetPCIBusId 4010
typedef CudaResult (*CudaDeviceTotalMem)(
    size_t* bytes, CudaDevice device);  // cuDeviceTotalMem 3020, plain cuDeviceTotalMem_v2

// Physical and virtual memory; all need VMM (10.2) and no context.
typedef CudaResult (*CudaMemGetAllocationGranularity)(size_t* bytes, const CudaMemProperties* properties,
                                                      int option);  // cuMemGetAllocationGranularity 10020
typedef CudaResult (*CudaMemCreate)(CudaMemHandle* handle, size_t size, const CudaMemProperties* properties,
                                    unsigned long long flags);  // cuMemCreate 10020
typedef CudaResult (*CudaMemRelease)(CudaMemHandle handle);     // cuMemRelease 10020
// `shareable` points to an int for a descriptor.
typedef CudaResult (*CudaMemExportToShareableHandle)(
    void* shareable, CudaMemHandle handle, int type,
    unsigned long long flags);  // cuMemExportToShareableHandle 10020
// A descriptor goes in by value, cast to a pointer.
typedef CudaResult (*CudaMemImportFromShareableHandle)(CudaMemHandle* handle, void* shareable,
                                                       int type);  // cuMemImportFromShareableHandle 10020
typedef CudaResult (*CudaMemAddressReserve)(CudaAddress* address, size_t size, size_t alignment,
                                            CudaAddress wanted,
                                            unsigned long long flags);       // cuMemAddressReserve 10020
typedef CudaResult (*CudaMemAddressFree)(CudaAddress address, size_t size);  // cuMemAddressFree 10020
typedef CudaResult (*CudaMemMap)(CudaAddress address, size_t size, size_t offset, CudaMemHandle handle,
                                 unsigned long long flags);            // cuMemMap 10020
typedef CudaResult (*CudaMemUnmap)(CudaAddress address, size_t size);  // cuMemUnmap 10020
typedef CudaResult (*CudaMemSetAccess)(CudaAddress address, size_t size, const CudaMemAccess* access,
                                       size_t count);  // cuMemSetAccess 10020
typedef CudaResult (*CudaMemGetAccess)(unsigned long long* flags, const CudaMemLocation* location,
                                       CudaAddress address);  // cuMemGetAccess 10020

// Contexts. The current one belongs to the calling thread.
typedef CudaResult (*CudaContextCreate)(CudaContext* context, unsigned flags,
                                        CudaDevice device);     // cuCtxCreate 3020, plain cuCtxCreate_v2
typedef CudaResult (*CudaContextDestroy)(CudaContext context);  // cuCtxDestroy 4000, plain cuCtxDestroy_v2
typedef CudaResult (*CudaContextPush)(
    CudaContext context);  // cuCtxPushCurrent 4000, plain cuCtxPushCurrent_v2
typedef CudaResult (*CudaContextPop)(CudaContext* context);  // cuCtxPopCurrent 4000, plain cuCtxPopCurrent_v2
typedef CudaResult (*CudaContextSetCurrent)(CudaContext context);   // cuCtxSetCurrent 4000
typedef CudaResult (*CudaContextGetCurrent)(CudaContext* context);  // cuCtxGetCurrent 4000
typedef CudaResult (*CudaContextGetDevice)(CudaDevice* device);     // cuCtxGetDevice 2000
typedef CudaResult (*CudaContextSynchronize)(void);                 // cuCtxSynchronize 2000
typedef CudaResult (*CudaPrimaryContextRetain)(CudaContext* context,
                                               CudaDevice device);  // cuDevicePrimaryCtxRetain 7000
typedef CudaResult (*CudaPrimaryContextRelease)(
    CudaDevice device);  // cuDevicePrimaryCtxRelease 11000, plain cuDevicePrimaryCtxRelease_v2
typedef CudaResult (*CudaPrimaryContextGetState)(CudaDevice device, unsigned* flags,
                                                 int* active);  // cuDevicePrimaryCtxGetState 7000

// Everything below needs a current context.
typedef CudaResult (*CudaMemGetInfo)(size_t* free_bytes,
                                     size_t* total_bytes);  // cuMemGetInfo 3020, plain cuMemGetInfo_v2
typedef CudaResult (*CudaMemAlloc)(CudaAddress* address,
                                   size_t size);         // cuMemAlloc 3020, plain cuMemAlloc_v2
typedef CudaResult (*CudaMemFree)(CudaAddress address);  // cuMemFree 3020, plain cuMemFree_v2
typedef CudaResult (*CudaMemHostAlloc)(void** memory, size_t size, unsigned flags);  // cuMemHostAlloc 2020
typedef CudaResult (*CudaMemFreeHost)(void* memory);                                 // cuMemFreeHost 2000
typedef CudaResult (*CudaMemHostRegister)(
    void* memory, size_t size,
    unsigned flags);  // cuMemHostRegister 6050, plain cuMemHostRegister_v2
typedef CudaResult (*CudaMemHostUnregister)(void* memory);  // cuMemHostUnregister 4000
typedef CudaResult (*CudaMemHostGetDevicePointer)(
    CudaAddress* address, void* memory,
    unsigned flags);  // cuMemHostGetDevicePointer 3020, plain ..._v2
typedef CudaResult (*CudaMemcpyHtoDAsync)(
    CudaAddress to, const void* from, size_t size,
    CudaStream stream);  // cuMemcpyHtoDAsync 3020, plain cuMemcpyHtoDAsync_v2
typedef CudaResult (*CudaMemcpyDtoHAsync)(
    void* to, CudaAddress from, size_t size,
    CudaStream stream);  // cuMemcpyDtoHAsync 3020, plain cuMemcpyDtoHAsync_v2
typedef CudaResult (*CudaMemcpyDtoDAsync)(
    CudaAddress to, CudaAddress from, size_t size,
    CudaStream stream);  // cuMemcpyDtoDAsync 3020, plain cuMemcpyDtoDAsync_v2
typedef CudaResult (*CudaMemsetD8Async)(CudaAddress to, unsigned char value, size_t count,
                                        CudaStream stream);  // cuMemsetD8Async 3020
typedef CudaResult (*CudaMemsetD32Async)(CudaAddress to, unsigned value, size_t count,
                                         CudaStream stream);  // cuMemsetD32Async 3020

typedef CudaResult (*CudaStreamCreate)(CudaStream* stream, unsigned flags);  // cuStreamCreate 2000
typedef CudaResult (*CudaStreamDestroy)(CudaStream stream);  // cuStreamDestroy 4000, plain cuStreamDestroy_v2
typedef CudaResult (*CudaStreamQuery)(CudaStream stream);    // cuStreamQuery 2000
typedef CudaResult (*CudaStreamSynchronize)(CudaStream stream);  // cuStreamSynchronize 2000
typedef CudaResult (*CudaStreamWaitEvent)(CudaStream stream, CudaEvent event,
                                          unsigned flags);                    // cuStreamWaitEvent 3020
typedef CudaResult (*CudaStreamIsCapturing)(CudaStream stream, int* status);  // cuStreamIsCapturing 10000
typedef CudaResult (*CudaThreadExchangeStreamCaptureMode)(
    int* mode);  // cuThreadExchangeStreamCaptureMode 10010; cuda_capture_relaxed and the like
typedef CudaResult (*CudaEventCreate)(CudaEvent* event, unsigned flags);  // cuEventCreate 2000
typedef CudaResult (*CudaEventDestroy)(CudaEvent event);  // cuEventDestroy 4000, plain cuEventDestroy_v2
typedef CudaResult (*CudaEventRecord)(CudaEvent event, CudaStream stream);  // cuEventRecord 2000
typedef CudaResult (*CudaEventQuery)(CudaEvent event);                      // cuEventQuery 2000
typedef CudaResult (*CudaEventSynchronize)(CudaEvent event);                // cuEventSynchronize 2000

typedef CudaResult (*CudaModuleLoadData)(CudaModule* module, const void* image);  // cuModuleLoadData 2000
typedef CudaResult (*CudaModuleUnload)(CudaModule module);                        // cuModuleUnload 2000
typedef CudaResult (*CudaModuleGetFunction)(CudaFunction* function, CudaModule module,
                                            const char* name);  // cuModuleGetFunction 2000
typedef CudaResult (*CudaLaunchKernel)(CudaFunction function, unsigned grid_x, unsigned grid_y,
                                       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                       unsigned shared_bytes, CudaStream stream, void** parameters,
                                       void** extra);  // cuLaunchKernel 4000

#ifdef __cplusplus
}  // namespace penstock
#endif
