// SPDX-License-Identifier: Apache-2.0
// What the kernel lets this process have.
#pragma once

#include <cstdint>

#include "dataplane/base/result.hpp"

namespace penstock {

inline constexpr std::uint64_t no_limit = UINT64_MAX;

struct ResourceLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

// RLIMIT_MEMLOCK, in bytes.
Result<ResourceLimit> locked_memory_limit();
// RLIMIT_NOFILE, in descriptors.
Result<ResourceLimit> open_files_limit();
// Descriptors that this process has open; 0 where the kernel does not tell (before Linux 6.2).
std::uint64_t open_descriptors();
// Raises the soft limit of descriptors to the hard one and returns it.
Result<std::uint64_t> raise_open_files_limit();
// True when CAP_IPC_LOCK is effective: RLIMIT_MEMLOCK then binds neither mlock nor io_uring.
bool may_lock_any_memory();

}  // namespace penstock
