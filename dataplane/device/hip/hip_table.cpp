// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/hip/hip_table.hpp"

#include <dlfcn.h>

#include "dataplane/device/gpu/vendor.hpp"

namespace penstock {
namespace {

// Not .so.5: there is no virtual memory management behind it on Linux.
constexpr const char* library_names[] = {"libamdhip64.so.7", "libamdhip64.so.6"};

class HipSymbols {
 public:
  explicit HipSymbols(void* library) : library_(library) {}

  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(library_, symbol));
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }
  // Of virtual memory management: a runtime without it is still one to copy whole tables with.
  template <class Function>
  void find_vmm(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(library_, symbol));
    if (function == nullptr && no_vmm_.empty()) no_vmm_ = symbol;
  }
  const std::string& missing() const { return missing_; }
  const std::string& no_vmm() const { return no_vmm_; }

 private:
  void* library_;
  std::string missing_, no_vmm_;
};

void find_devices(HipSymbols& symbols, HipTable& table) {
  symbols.find(table.runtime_get_version, "hipRuntimeGetVersion");
  symbols.find(table.init, "hipInit");
  symbols.find(table.get_device_count, "hipGetDeviceCount");
  symbols.find(table.device_get, "hipDeviceGet");
  symbols.find(table.device_get_name, "hipDeviceGetName");
  symbols.find(table.device_get_attribute, "hipDeviceGetAttribute");
  symbols.find(table.device_get_uuid, "hipDeviceGetUuid");
  symbols.find(table.device_get_pci_bus_id, "hipDeviceGetPCIBusId");
  symbols.find(table.device_total_mem, "hipDeviceTotalMem");
  symbols.find(table.set_device, "hipSetDevice");
  symbols.find(table.get_device, "hipGetDevice");
}

void find_memory(HipSymbols& symbols, HipTable& table) {
  symbols.find_vmm(table.mem_get_allocation_granularity, "hipMemGetAllocationGranularity");
  symbols.find_vmm(table.mem_create, "hipMemCreate");
  symbols.find_vmm(table.mem_release, "hipMemRelease");
  symbols.find_vmm(table.mem_export, "hipMemExportToShareableHandle");
  symbols.find_vmm(table.mem_import, "hipMemImportFromShareableHandle");
  symbols.find_vmm(table.mem_address_reserve, "hipMemAddressReserve");
  symbols.find_vmm(table.mem_address_free, "hipMemAddressFree");
  symbols.find_vmm(table.mem_map, "hipMemMap");
  symbols.find_vmm(table.mem_unmap, "hipMemUnmap");
  symbols.find_vmm(table.mem_set_access, "hipMemSetAccess");
}

void find_work(HipSymbols& symbols, HipTable& table) {
  symbols.find(table.mem_get_info, "hipMemGetInfo");
  symbols.find(table.malloc, "hipMalloc");
  symbols.find(table.free, "hipFree");
  symbols.find(table.host_malloc, "hipHostMalloc");
  symbols.find(table.host_free, "hipHostFree");
  symbols.find(table.host_register, "hipHostRegister");
  symbols.find(table.host_unregister, "hipHostUnregister");
  symbols.find(table.host_get_device_pointer, "hipHostGetDevicePointer");
  symbols.find(table.memcpy_htod_async, "hipMemcpyHtoDAsync");
  symbols.find(table.memcpy_dtoh_async, "hipMemcpyDtoHAsync");
  symbols.find(table.memcpy_dtod_async, "hipMemcpyDtoDAsync");
  symbols.find(table.memset_d32_async, "hipMemsetD32Async");
  symbols.find(table.stream_create_with_flags, "hipStreamCreateWithFlags");
  symbols.find(table.stream_destroy, "hipStreamDestroy");
  symbols.find(table.stream_synchronize, "hipStreamSynchronize");
  symbols.find(table.stream_wait_event, "hipStreamWaitEvent");
  symbols.find(table.event_create_with_flags, "hipEventCreateWithFlags");
  symbols.find(table.event_destroy, "hipEventDestroy");
  symbols.find(table.event_record, "hipEventRecord");
  symbols.find(table.event_synchronize, "hipEventSynchronize");
  symbols.find(table.get_device_properties, "hipGetDevicePropertiesR0600");
  symbols.find(table.module_load_data, "hipModuleLoadData");
  symbols.find(table.module_unload, "hipModuleUnload");
  symbols.find(table.module_get_function, "hipModuleGetFunction");
  symbols.find(table.module_launch_kernel, "hipModuleLaunchKernel");
}

}  // namespace

LoadedHip load_hip(int open_flags) {
  LoadedHip loaded;
  void* library = nullptr;
  for (const char* name : library_names) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | open_flags);
    if (library != nullptr) {
      loaded.library = name;
      break;
    }
    const char* why = ::dlerror();
    const bool is_there = why != nullptr && !says_missing(why, name);
    if (loaded.detail.empty() || is_there)
      loaded.detail = why != nullptr ? why : "libamdhip64 is not loaded in this process";
    if (is_there) loaded.state = LoadedHip::State::unloadable;
  }
  if (library == nullptr) return loaded;
  HipSymbols symbols(library);
  find_devices(symbols, loaded.table);
  find_memory(symbols, loaded.table);
  find_work(symbols, loaded.table);
  loaded.detail = symbols.missing();
  loaded.no_vmm = symbols.no_vmm();
  loaded.state = symbols.missing().empty() ? LoadedHip::State::loaded : LoadedHip::State::incomplete;
  return loaded;
}

}  // namespace penstock
