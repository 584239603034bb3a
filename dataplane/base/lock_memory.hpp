// SPDX-License-Identifier: Apache-2.0
// Keeping memory from being swapped out.
#pragma once

#include <cstdint>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

// Locks the whole mapping until it is unmapped. Errc::exhausted with ENOMEM or EPERM: more than
// locked_memory_limit() allows, and no CAP_IPC_LOCK.
Result<> lock_memory(const Mapping& mapping);
// A part of it. REQUIRES: `offset` is a multiple of the page size, and the part lies in the mapping.
Result<> lock_memory(const Mapping& mapping, std::uint64_t offset, std::uint64_t bytes);

// Locks pages of mappings in [begin, end) from when each is touched, until they are unmapped. Fails as
// lock_memory does.
Result<> lock_when_touched(std::uintptr_t begin, std::uintptr_t end);

// Touches the next 64 KiB of the calling thread's stack, so that no later call needs memory for them.
void prefault_stack();
// The same, and keeps the stack in memory until the thread ends: all of it from when it is touched, or where that is more
// than may be locked the touched part. Fails as lock_memory does.
Result<> lock_own_stack();

}  // namespace penstock
