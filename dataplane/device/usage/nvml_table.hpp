// SPDX-License-Identifier: Apache-2.0
// The functions of libnvidia-ml.so.1, found at run time. Never unloaded: a thread that hangs in it is left behind.
#pragma once

#include "dataplane/base/result.hpp"
#include "dataplane/device/usage/nvml_abi.h"

namespace penstock {

using NvmlProcessList = nvml_return_t (*)(nvml_device_t, uint32_t*, void*);

struct NvmlTable {
  // Always there.
  nvml_return_t (*init)() = nullptr;
  nvml_return_t (*shutdown)() = nullptr;
  nvml_return_t (*device_count)(uint32_t*) = nullptr;
  nvml_return_t (*device_by_index)(uint32_t, nvml_device_t*) = nullptr;
  nvml_return_t (*uuid)(nvml_device_t, char*, uint32_t) = nullptr;
  nvml_return_t (*pci_info)(nvml_device_t, nvml_pci_info*) = nullptr;
  nvml_return_t (*memory)(nvml_device_t, nvml_memory*) = nullptr;
  // Null in older drivers.
  nvml_return_t (*memory_v2)(nvml_device_t, nvml_memory_v2*) = nullptr;
  nvml_return_t (*mig_mode)(nvml_device_t, uint32_t* current, uint32_t* pending) = nullptr;
  nvml_return_t (*mig_count_max)(nvml_device_t, uint32_t*) = nullptr;
  nvml_return_t (*mig_by_index)(nvml_device_t, uint32_t, nvml_device_t*) = nullptr;
  // Compute, graphics, MPS: the newest form there is, or null.
  NvmlProcessList processes[3] = {};
  bool processes_are_v1 = false;  // The compute list's form; the others have the same.
};

// Errc::not_found without the library, Errc::unsupported when a function is missing.
Result<NvmlTable> load_nvml(const char* library);

}  // namespace penstock
