/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* All programs of the service, one object. Only plain dereferences of typed pointers: a kernel that is locked down to
 * confidentiality refuses every program that calls bpf_probe_read_kernel. Each program but the first two is optional. */
#define PENSTOCK_BPF_PROGRAM
#include <stdbool.h>

#include "bpf/kernel/kernel_types.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "bpf/kernel/maps.h"

#include "bpf/kernel/hints.h"

#include "bpf/kernel/cause.h"
#include "bpf/kernel/faults.h"
#include "bpf/kernel/page_cache.h"
#include "bpf/kernel/reclaim.h"
#include "bpf/kernel/resolve.h"

/* The kernel lends some of the functions called here only to programs under its own licence. */
char kernel_license[] SEC("license") = "GPL";
