// SPDX-License-Identifier: Apache-2.0
// What we use of AMD SMI's binary interface (libamd_smi.so, ROCm 6.0 and later), declared here so that no header of a
// vendor is needed.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void* amdsmi_socket_t;
typedef void* amdsmi_gpu_t;
typedef int amdsmi_status_t;

enum { amdsmi_success = 0 };
enum { amdsmi_init_gpus = 1 << 1 };
enum { amdsmi_memory_vram = 0 };

// Function 3 bits, device 5, bus 8, domain 48, from the lowest.
typedef uint64_t amdsmi_address_t;

#ifdef __cplusplus
}
#endif
