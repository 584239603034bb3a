// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/nvml_table.hpp"

#include <dlfcn.h>

namespace penstock {
namespace {

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

// One form for all three lists: they differ in the size of an entry.
void find_processes(void* library, NvmlTable& table) {
  constexpr const char* names[][3] = {
      {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
       "nvmlDeviceGetMPSComputeRunningProcesses_v3"},
      {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v2",
       "nvmlDeviceGetMPSComputeRunningProcesses_v2"},
      {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
       "nvmlDeviceGetMPSComputeRunningProcesses"}};
  for (const auto& form : names) {
    table.processes_are_v1 = &form == &names[2];
    if (!find(library, form[0], table.processes[0])) continue;
    find(library, form[1], table.processes[1]);
    find(library, form[2], table.processes[2]);
    return;
  }
}

}  // namespace

Result<NvmlTable> load_nvml(const char* name) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{Errc::not_found, 0, "libnvidia-ml"};
  NvmlTable table;
  const bool complete = find(library, "nvmlInit_v2", table.init) &&
                        find(library, "nvmlShutdown", table.shutdown) &&
                        find(library, "nvmlDeviceGetCount_v2", table.device_count) &&
                        find(library, "nvmlDeviceGetHandleByIndex_v2", table.device_by_index) &&
                        find(library, "nvmlDeviceGetUUID", table.uuid) &&
                        find(library, "nvmlDeviceGetPciInfo_v3", table.pci_info) &&
                        find(library, "nvmlDeviceGetMemoryInfo", table.memory);
  if (!complete) return Error{Errc::unsupported, 0, "libnvidia-ml"};
  find(library, "nvmlDeviceGetMemoryInfo_v2", table.memory_v2);
  find(library, "nvmlDeviceGetMigMode", table.mig_mode);
  find(library, "nvmlDeviceGetMaxMigDeviceCount", table.mig_count_max);
  find(library, "nvmlDeviceGetMigDeviceHandleByIndex", table.mig_by_index);
  find_processes(library, table);
  return table;
}

}  // namespace penstock
