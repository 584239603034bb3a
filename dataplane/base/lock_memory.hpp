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

// Locks pages of mappings in [begin, end) from when each is touched, until they are unmapped. Fails as
// lock_memory does.
Result<> lock_when_touched(std::uintptr_t begin, std::uintptr_t end);

}  // namespace penstock
