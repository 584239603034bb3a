// SPDX-License-Identifier: Apache-2.0
// What we use of NVML's binary interface, declared here because its header is in no redistributable package. Sizes and
// order are those of the driver's library since version 450; structures with a version carry it in their first word.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvml_device* nvml_device_t;
typedef int nvml_return_t;

enum {
  nvml_success = 0,
  nvml_uninitialized = 1,
  nvml_not_supported = 3,
  nvml_no_permission = 4,
  nvml_not_found = 6,
  nvml_insufficient_size = 7,
  nvml_driver_not_loaded = 9,
  nvml_gpu_is_lost = 15,
  nvml_reset_required = 16,
  nvml_unknown = 999,
};

enum { nvml_uuid_bytes = 96 };

struct nvml_pci_info {
  char bus_id_legacy[16];
  uint32_t domain;
  uint32_t bus;
  uint32_t device;
  uint32_t pci_device_id;
  uint32_t pci_subsystem_id;
  char bus_id[32];
};

struct nvml_memory {
  uint64_t total;
  uint64_t free;
  uint64_t used;  // With the reserved bytes.
};

struct nvml_memory_v2 {
  uint32_t version;  // nvml_memory_v2_version.
  uint64_t total;
  uint64_t reserved;
  uint64_t free;
  uint64_t used;  // Without the reserved bytes.
};
static const uint32_t nvml_memory_v2_version = (uint32_t)(sizeof(struct nvml_memory_v2) | 2u << 24);

// Since _v2 of the calls that list processes.
struct nvml_process {
  uint32_t pid;
  uint64_t used_bytes;  // nvml_value_not_available where the driver doesn't say.
  uint32_t gpu_instance;
  uint32_t compute_instance;
};
struct nvml_process_v1 {
  uint32_t pid;
  uint64_t used_bytes;
};
static const uint64_t nvml_value_not_available = UINT64_MAX;

#ifdef __cplusplus
}

static_assert(sizeof(nvml_pci_info) == 68 && sizeof(nvml_memory) == 24 && sizeof(nvml_memory_v2) == 40);
static_assert(sizeof(nvml_process) == 24 && sizeof(nvml_process_v1) == 16);
#endif
