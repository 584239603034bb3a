// SPDX-License-Identifier: Apache-2.0
// Making the memory of a shared mapping present ahead of its use. Slow: 0.06 to 0.7 s a GiB.
#pragma once

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

// Present in 2 MiB pages, whatever shmem_enabled says. REQUIRES: address and size are multiples of 2 MiB.
// Errors, by `native`: EBUSY the memory cgroup refused to be charged; it kills nobody for that, unlike a page
// fault past its limit. EINVAL a kernel before 6.1, or huge pages are denied; ENOMEM, EAGAIN there is none
// now.
Result<> populate_huge(const Mapping& mapping);
// Present in pages of the kernel's choice. Past the limit of a memory cgroup this ends in the out-of-memory
// killer.
Result<> populate_small(const Mapping& mapping);

// Keeps the content out of core dumps.
Result<> exclude_from_dumps(const Mapping& mapping);

}  // namespace penstock
