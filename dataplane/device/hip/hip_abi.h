// SPDX-License-Identifier: Apache-2.0
// What we use of the HIP runtime's binary interface (libamdhip64), in our own words; found by plain dlsym under the
// name beside each function type. No vendor header is included anywhere in the service: Debian's (HIP 5.2) orders
// HipMemProperties differently, and code built against it is silently wrong on every runtime that has VMM.
//
// Versions: VMM from 6.1, descriptors and read-only mappings from 6.2, an imported descriptor by pointer up to 7.0 and
// by value from 7.1.
#pragma once

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
namespace penstock {
#else
#include <assert.h>
#endif

typedef int
    HipResult;  // A HipError; a plain int, because runtimes may answer values that are newer than this list.
enum HipError {
  hip_success = 0,
  hip_error_invalid_value = 1,
  hip_error_out_of_memory = 2,
  hip_error_not_initialized = 3,
  hip_error_deinitialized = 4,
  hip_error_insufficient_driver = 35,
  hip_error_invalid_device_function = 98,
  hip_error_no_device = 100,
  hip_error_invalid_device = 101,
  hip_error_invalid_image = 200,
  hip_error_invalid_context = 201,
  hip_error_map_failed = 205,
  hip_error_no_binary_for_gpu = 209,
  hip_error_ecc_not_correctable = 214,
  hip_error_operating_system = 304,
  hip_error_invalid_handle = 400,
  hip_error_illegal_state = 401,
  hip_error_not_found = 500,
  hip_error_not_ready = 600,  // The answer of a query whose work still runs; not a failure.
  hip_error_illegal_address = 700,
  hip_error_launch_out_of_resources = 701,
  hip_error_launch_timeout = 702,
  hip_error_context_is_destroyed = 709,
  hip_error_assert = 710,
  hip_error_host_memory_already_registered = 712,
  hip_error_host_memory_not_registered = 713,
  hip_error_launch_failure = 719,
  hip_error_not_supported = 801,
  hip_error_stream_capture_unsupported = 900,
  hip_error_stream_capture_invalidated = 901,
  hip_error_stream_capture_implicit = 906,
  hip_error_unknown = 999,
  hip_error_runtime_memory = 1052,
  hip_error_runtime_other = 1053,
};

// The vendor has only ever grown this list at its end. Other numbers than CUDA's.
enum HipDeviceAttribute {
  hip_attribute_compute_mode = 6,
  hip_attribute_integrated = 16,  // Shares the host's memory.
  hip_attribute_compute_capability_major = 23,
  hip_attribute_max_threads_per_block = 56,
  hip_attribute_compute_capability_minor = 61,
  hip_attribute_multiprocessor_count = 63,
  hip_attribute_pci_bus_id = 67,
  hip_attribute_pci_device_id = 68,
  hip_attribute_pci_domain_id = 69,
  hip_attribute_warp_size = 87,
  hip_attribute_virtual_memory_management_supported = 89,  // From 5.3 on.
};
enum HipMemHandleType { hip_mem_handle_none = 0, hip_mem_handle_posix_fd = 1 };
enum HipMemLocationType { hip_mem_location_invalid = 0, hip_mem_location_device = 1 };
enum HipMemAllocationType { hip_mem_allocation_pinned = 1 };
enum HipMemAccessFlags { hip_mem_access_none = 0, hip_mem_access_read = 1, hip_mem_access_read_write = 3 };
enum HipMemGranularity { hip_mem_granularity_minimum = 0, hip_mem_granularity_recommended = 1 };
enum HipStreamFlags { hip_stream_non_blocking = 1 };  // Does not wait for the null stream.
enum HipEventFlags { hip_event_blocking_sync = 1, hip_event_disable_timing = 2 };
enum HipHostFlags { hip_host_portable = 1, hip_host_mapped = 2 };  // Of allocation and of registration.
enum HipCaptureMode { hip_capture_global = 0, hip_capture_thread_local = 1, hip_capture_relaxed = 2 };
enum HipCaptureStatus { hip_capture_none = 0, hip_capture_active = 1, hip_capture_invalidated = 2 };

typedef int HipDevice;     // An ordinal: HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES renumber it.
typedef void* HipAddress;  // Device addresses are pointers here.
typedef struct HipMemHandleState* HipMemHandle;
typedef struct HipStreamState* HipStream;  // Null is the default stream of the current device.
typedef struct HipEventState* HipEvent;
typedef struct HipModuleState* HipModule;
typedef struct HipFunctionState* HipFunction;

typedef struct HipUuid {
  char bytes[16];
} HipUuid;
typedef struct HipMemLocation {
  int type;  // HipMemLocationType
  int id;    // HipDevice
} HipMemLocation;
// From 5.3 on; equal to CUDA's. To be zeroed before it is filled: reserved bytes must be 0.
typedef struct HipMemProperties {
  int type;          // HipMemAllocationType
  int handle_types;  // HipMemHandleType
  HipMemLocation location;
  void* win32_meta_data;
  unsigned char compression_type;
  unsigned char gpu_direct_rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
} HipMemProperties;
// Of 5.2 alone, which we refuse (no VMM on Linux). It documents the trap: the same size in another order.
typedef struct HipMemProperties52 {
  unsigned char compression_type;
  HipMemLocation location;
  int handle_types;
  int type;
  unsigned short usage;
  void* win32_meta_data;
} HipMemProperties52;
typedef struct HipMemAccess {
  HipMemLocation location;
  int flags;  // HipMemAccessFlags
} HipMemAccess;
// Of hipGetDevicePropertiesR0600 (6.0 on), for the architecture's name alone ("gfx942:sramecc+:xnack-"), which no
// attribute gives. Larger than the runtime's own, so that one that grows at its end does no harm.
typedef struct HipDeviceProperties600 {
  char name[256];
  HipUuid uuid;
  unsigned char not_used[888];
  char architecture[256];
  unsigned char rest[2680];
} HipDeviceProperties600;

static_assert(sizeof(HipUuid) == 16, "hipUUID");
static_assert(sizeof(HipMemLocation) == 8, "hipMemLocation");
static_assert(sizeof(HipMemProperties) == 32, "hipMemAllocationProp");
static_assert(offsetof(HipMemProperties, handle_types) == 4, "hipMemAllocationProp");
static_assert(offsetof(HipMemProperties, location) == 8, "hipMemAllocationProp");
static_assert(offsetof(HipMemProperties, win32_meta_data) == 16, "hipMemAllocationProp");
static_assert(offsetof(HipMemProperties, compression_type) == 24, "hipMemAllocationProp");
static_assert(offsetof(HipMemProperties, usage) == 26, "hipMemAllocationProp");
static_assert(sizeof(HipMemProperties52) == 32, "hipMemAllocationProp of 5.2");
static_assert(offsetof(HipMemProperties52, location) == 4, "hipMemAllocationProp of 5.2");
static_assert(offsetof(HipMemProperties52, handle_types) == 12, "hipMemAllocationProp of 5.2");
static_assert(offsetof(HipMemProperties52, type) == 16, "hipMemAllocationProp of 5.2");
static_assert(offsetof(HipMemProperties52, usage) == 20, "hipMemAllocationProp of 5.2");
static_assert(offsetof(HipMemProperties52, win32_meta_data) == 24, "hipMemAllocationProp of 5.2");
static_assert(sizeof(HipMemAccess) == 12, "hipMemAccessDesc");
static_assert(offsetof(HipMemAccess, flags) == 8, "hipMemAccessDesc");
static_assert(sizeof(HipMemHandle) == 8, "hipMemGenericAllocationHandle_t");
static_assert(offsetof(HipDeviceProperties600, architecture) == 1160, "hipDeviceProp_tR0600.gcnArchName");
static_assert(sizeof(HipDeviceProperties600) == 4096, "room for what is added at its end");

// 10,000,000 * major + 100,000 * minor + patch. Answers before hipInit: gate on it first.
typedef HipResult (*HipRuntimeGetVersion)(int* version);                            // hipRuntimeGetVersion
typedef HipResult (*HipInit)(unsigned flags);                                       // hipInit
typedef const char* (*HipGetErrorName)(HipResult error);                            // hipGetErrorName
typedef const char* (*HipGetErrorString)(HipResult error);                          // hipGetErrorString
typedef HipResult (*HipGetDeviceCount)(int* count);                                 // hipGetDeviceCount
typedef HipResult (*HipDeviceGet)(HipDevice* device, int ordinal);                  // hipDeviceGet
typedef HipResult (*HipDeviceGetName)(char* name, int length, HipDevice device);    // hipDeviceGetName
typedef HipResult (*HipDeviceGetAttribute)(int* value, int attribute, int device);  // hipDeviceGetAttribute
typedef HipResult (*HipDeviceGetUuid)(HipUuid* uuid, HipDevice device);             // hipDeviceGetUuid
typedef HipResult (*HipDeviceGetPciBusId)(char* id, int length, int device);        // hipDeviceGetPCIBusId
typedef HipResult (*HipDeviceTotalMem)(size_t* bytes, HipDevice device);            // hipDeviceTotalMem
typedef HipResult (*HipGetDeviceProperties600)(HipDeviceProperties600* properties,
                                               int device);  // hipGetDevicePropertiesR0600
// The current device belongs to the calling thread; newer runtimes take the context of VMM calls from it, so set it
// before every one of them.
typedef HipResult (*HipSetDevice)(int device);    // hipSetDevice
typedef HipResult (*HipGetDevice)(int* device);   // hipGetDevice
typedef HipResult (*HipDeviceSynchronize)(void);  // hipDeviceSynchronize
typedef HipResult (*HipGetLastError)(void);       // hipGetLastError; clears the thread's last error
typedef HipResult (*HipPeekAtLastError)(void);    // hipPeekAtLastError

typedef HipResult (*HipMemGetAllocationGranularity)(size_t* bytes, const HipMemProperties* properties,
                                                    int option);  // hipMemGetAllocationGranularity
typedef HipResult (*HipMemCreate)(HipMemHandle* handle, size_t size, const HipMemProperties* properties,
                                  unsigned long long flags);  // hipMemCreate
typedef HipResult (*HipMemRelease)(HipMemHandle handle);      // hipMemRelease
// `shareable` points to an int for a descriptor.
typedef HipResult (*HipMemExportToShareableHandle)(
    void* shareable, HipMemHandle handle, int type,
    unsigned long long flags);  // hipMemExportToShareableHandle
// Up to 7.0 `shareable` points to the descriptor, from 7.1 on it is the descriptor, cast to a pointer.
typedef HipResult (*HipMemImportFromShareableHandle)(HipMemHandle* handle, void* shareable,
                                                     int type);  // hipMemImportFromShareableHandle
typedef HipResult (*HipMemAddressReserve)(HipAddress* address, size_t size, size_t alignment,
                                          HipAddress wanted,
                                          unsigned long long flags);      // hipMemAddressReserve
typedef HipResult (*HipMemAddressFree)(HipAddress address, size_t size);  // hipMemAddressFree
typedef HipResult (*HipMemMap)(HipAddress address, size_t size, size_t offset, HipMemHandle handle,
                               unsigned long long flags);           // hipMemMap
typedef HipResult (*HipMemUnmap)(HipAddress address, size_t size);  // hipMemUnmap
typedef HipResult (*HipMemSetAccess)(HipAddress address, size_t size, const HipMemAccess* access,
                                     size_t count);  // hipMemSetAccess
typedef HipResult (*HipMemGetAccess)(unsigned long long* flags, const HipMemLocation* location,
                                     HipAddress address);  // hipMemGetAccess

typedef HipResult (*HipMemGetInfo)(size_t* free_bytes, size_t* total_bytes);      // hipMemGetInfo
typedef HipResult (*HipMalloc)(HipAddress* address, size_t size);                 // hipMalloc
typedef HipResult (*HipFree)(HipAddress address);                                 // hipFree
typedef HipResult (*HipHostMalloc)(void** memory, size_t size, unsigned flags);   // hipHostMalloc
typedef HipResult (*HipHostFree)(void* memory);                                   // hipHostFree
typedef HipResult (*HipHostRegister)(void* memory, size_t size, unsigned flags);  // hipHostRegister
typedef HipResult (*HipHostUnregister)(void* memory);                             // hipHostUnregister
typedef HipResult (*HipHostGetDevicePointer)(HipAddress* address, void* memory,
                                             unsigned flags);  // hipHostGetDevicePointer
typedef HipResult (*HipMemcpyHtoDAsync)(HipAddress to, const void* from, size_t size,
                                        HipStream stream);  // hipMemcpyHtoDAsync
typedef HipResult (*HipMemcpyDtoHAsync)(void* to, HipAddress from, size_t size,
                                        HipStream stream);  // hipMemcpyDtoHAsync
typedef HipResult (*HipMemcpyDtoDAsync)(HipAddress to, HipAddress from, size_t size,
                                        HipStream stream);  // hipMemcpyDtoDAsync
typedef HipResult (*HipMemsetD8Async)(HipAddress to, unsigned char value, size_t count,
                                      HipStream stream);  // hipMemsetD8Async
typedef HipResult (*HipMemsetD32Async)(HipAddress to, int value, size_t count,
                                       HipStream stream);  // hipMemsetD32Async

typedef HipResult (*HipStreamCreateWithFlags)(HipStream* stream, unsigned flags);  // hipStreamCreateWithFlags
typedef HipResult (*HipStreamDestroy)(HipStream stream);                           // hipStreamDestroy
typedef HipResult (*HipStreamQuery)(HipStream stream);                             // hipStreamQuery
typedef HipResult (*HipStreamSynchronize)(HipStream stream);                       // hipStreamSynchronize
typedef HipResult (*HipStreamWaitEvent)(HipStream stream, HipEvent event,
                                        unsigned flags);                   // hipStreamWaitEvent
typedef HipResult (*HipStreamIsCapturing)(HipStream stream, int* status);  // hipStreamIsCapturing
typedef HipResult (*HipThreadExchangeStreamCaptureMode)(
    int* mode);  // hipThreadExchangeStreamCaptureMode; hip_capture_relaxed and the like
typedef HipResult (*HipEventCreateWithFlags)(HipEvent* event, unsigned flags);  // hipEventCreateWithFlags
typedef HipResult (*HipEventDestroy)(HipEvent event);                           // hipEventDestroy
typedef HipResult (*HipEventRecord)(HipEvent event, HipStream stream);          // hipEventRecord
typedef HipResult (*HipEventQuery)(HipEvent event);                             // hipEventQuery
typedef HipResult (*HipEventSynchronize)(HipEvent event);                       // hipEventSynchronize

typedef HipResult (*HipModuleLoadData)(HipModule* module, const void* image);  // hipModuleLoadData
typedef HipResult (*HipModuleUnload)(HipModule module);                        // hipModuleUnload
typedef HipResult (*HipModuleGetFunction)(HipFunction* function, HipModule module,
                                          const char* name);  // hipModuleGetFunction
// `parameters` as CUDA's; grids are counted in blocks.
typedef HipResult (*HipModuleLaunchKernel)(HipFunction function, unsigned grid_x, unsigned grid_y,
                                           unsigned grid_z, unsigned block_x, unsigned block_y,
                                           unsigned block_z, unsigned shared_bytes, HipStream stream,
                                           void** parameters,
                                           void** extra);  // hipModuleLaunchKernel

#ifdef __cplusplus
}  // namespace penstock
#endif
