// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/cuda/cuda_table.hpp"

#include <dlfcn.h>

#include "dataplane/device/gpu/vendor.hpp"

namespace penstock {
namespace {

constexpr const char* library_name = "libcuda.so.1";
constexpr int vmm_version = 10020;

// Finds symbols: through the driver's own search at the version that introduced each one, since a plain name may be the
// form of an older version; by dlsym under the full name only in drivers older than 11.3, which have no such search.
class CudaSymbols {
 public:
  explicit CudaSymbols(void* library) : library_(library) {
    v2_ = reinterpret_cast<CudaGetProcAddressV2>(::dlsym(library, "cuGetProcAddress_v2"));
    v1_ = reinterpret_cast<CudaGetProcAddressV1>(::dlsym(library, "cuGetProcAddress"));
  }

  template <class Function>
  void find(Function& function, const char* symbol, int version, const char* plain = nullptr,
            int older_version = 0) {
    void* address = search(symbol, version, plain);
    if (address == nullptr && older_version != 0) address = search(symbol, older_version, symbol);
    function = reinterpret_cast<Function>(address);
    if (address == nullptr && missing_.empty()) missing_ = symbol;
  }
  // Of virtual memory management: a driver without it is still one to copy whole tables with.
  template <class Function>
  void find_vmm(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(search(symbol, vmm_version, nullptr));
    if (function == nullptr && no_vmm_.empty()) no_vmm_ = symbol;
  }

  bool is_stub() const { return stub_; }
  const std::string& missing() const { return missing_; }
  const std::string& no_vmm() const { return no_vmm_; }

 private:
  void* search(const char* symbol, int version, const char* plain) {
    if (v2_ == nullptr && v1_ == nullptr) return ::dlsym(library_, plain != nullptr ? plain : symbol);
    void* address = nullptr;
    int status = cuda_proc_address_found;
    const CudaResult result = v2_ != nullptr
                                  ? v2_(symbol, &address, version, cuda_proc_address_default, &status)
                                  : v1_(symbol, &address, version, cuda_proc_address_default);
    // The stub answers this to everything. Its exported symbols would all be there, and all be useless.
    if (result == cuda_error_stub_library) stub_ = true;
    return result == cuda_success ? address : nullptr;
  }

  void* library_;
  CudaGetProcAddressV2 v2_;
  CudaGetProcAddressV1 v1_;
  bool stub_ = false;
  std::string missing_, no_vmm_;
};

void find_devices(CudaSymbols& symbols, CudaTable& table) {
  symbols.find(table.init, "cuInit", 2000);
  symbols.find(table.driver_get_version, "cuDriverGetVersion", 2020);
  symbols.find(table.device_get_count, "cuDeviceGetCount", 2000);
  symbols.find(table.device_get, "cuDeviceGet", 2000);
  symbols.find(table.device_get_name, "cuDeviceGetName", 2000);
  symbols.find(table.device_get_attribute, "cuDeviceGetAttribute", 2000);
  symbols.find(table.device_get_pci_bus_id, "cuDeviceGetPCIBusId", 4010);
  symbols.find(table.device_total_mem, "cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2");
}

void find_memory(CudaSymbols& symbols, CudaTable& table) {
  symbols.find_vmm(table.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
  symbols.find_vmm(table.mem_create, "cuMemCreate");
  symbols.find_vmm(table.mem_release, "cuMemRelease");
  symbols.find_vmm(table.mem_export, "cuMemExportToShareableHandle");
  symbols.find_vmm(table.mem_import, "cuMemImportFromShareableHandle");
  symbols.find_vmm(table.mem_address_reserve, "cuMemAddressReserve");
  symbols.find_vmm(table.mem_address_free, "cuMemAddressFree");
  symbols.find_vmm(table.mem_map, "cuMemMap");
  symbols.find_vmm(table.mem_unmap, "cuMemUnmap");
  symbols.find_vmm(table.mem_set_access, "cuMemSetAccess");
}

void find_work(CudaSymbols& symbols, CudaTable& table) {
  symbols.find(table.primary_context_retain, "cuDevicePrimaryCtxRetain", 7000);
  symbols.find(table.primary_context_get_state, "cuDevicePrimaryCtxGetState", 7000);
  symbols.find(table.context_set_current, "cuCtxSetCurrent", 4000);
  symbols.find(table.context_get_current, "cuCtxGetCurrent", 4000);
  symbols.find(table.context_get_device, "cuCtxGetDevice", 2000);
  symbols.find(table.context_push, "cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2");
  symbols.find(table.context_pop, "cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2");
  symbols.find(table.mem_get_info, "cuMemGetInfo", 3020, "cuMemGetInfo_v2");
  symbols.find(table.mem_alloc, "cuMemAlloc", 3020, "cuMemAlloc_v2");
  symbols.find(table.mem_free, "cuMemFree", 3020, "cuMemFree_v2");
  symbols.find(table.mem_host_alloc, "cuMemHostAlloc", 2020);
  symbols.find(table.mem_free_host, "cuMemFreeHost", 2000);
  symbols.find(table.mem_host_register, "cuMemHostRegister", 6050, "cuMemHostRegister_v2");
  symbols.find(table.mem_host_unregister, "cuMemHostUnregister", 4000);
  symbols.find(table.mem_host_get_device_pointer, "cuMemHostGetDevicePointer", 3020,
               "cuMemHostGetDevicePointer_v2");
  symbols.find(table.memcpy_htod_async, "cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2");
  symbols.find(table.memcpy_dtoh_async, "cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2");
  symbols.find(table.memcpy_dtod_async, "cuMemcpyDtoDAsync", 3020, "cuMemcpyDtoDAsync_v2");
  symbols.find(table.memset_d32_async, "cuMemsetD32Async", 3020);
  symbols.find(table.stream_create, "cuStreamCreate", 2000);
  symbols.find(table.stream_destroy, "cuStreamDestroy", 4000, "cuStreamDestroy_v2");
  symbols.find(table.stream_synchronize, "cuStreamSynchronize", 2000);
  symbols.find(table.stream_wait_event, "cuStreamWaitEvent", 3020);
  symbols.find(table.event_create, "cuEventCreate", 2000);
  symbols.find(table.event_destroy, "cuEventDestroy", 4000, "cuEventDestroy_v2");
  symbols.find(table.event_record, "cuEventRecord", 2000);
  symbols.find(table.event_synchronize, "cuEventSynchronize", 2000);
  symbols.find(table.module_load_data, "cuModuleLoadData", 2000);
  symbols.find(table.module_unload, "cuModuleUnload", 2000);
  symbols.find(table.module_get_function, "cuModuleGetFunction", 2000);
  symbols.find(table.launch_kernel, "cuLaunchKernel", 4000);
}

// Their newer forms came with 11.x; older drivers have the older ones, which do for us.
void find_with_older_forms(CudaSymbols& symbols, CudaTable& table) {
  symbols.find(table.device_get_uuid, "cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2", 9020);
  symbols.find(table.primary_context_release, "cuDevicePrimaryCtxRelease", 11000,
               "cuDevicePrimaryCtxRelease_v2", 7000);
}

}  // namespace

LoadedCuda load_cuda(int open_flags) {
  LoadedCuda loaded;
  void* library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL | open_flags);
  if (library == nullptr) {
    const char* why = ::dlerror();
    loaded.detail = why != nullptr ? why : "libcuda.so.1 is not loaded in this process";
    if (why != nullptr && !says_missing(why, library_name)) loaded.state = LoadedCuda::State::unloadable;
    return loaded;
  }
  loaded.library = library_name;
  CudaSymbols symbols(library);
  find_devices(symbols, loaded.table);
  find_memory(symbols, loaded.table);
  find_work(symbols, loaded.table);
  find_with_older_forms(symbols, loaded.table);
  loaded.detail = symbols.missing();
  loaded.no_vmm = symbols.no_vmm();
  loaded.state = symbols.is_stub()            ? LoadedCuda::State::stub
                 : !symbols.missing().empty() ? LoadedCuda::State::incomplete
                                              : LoadedCuda::State::loaded;
  return loaded;
}

}  // namespace penstock
