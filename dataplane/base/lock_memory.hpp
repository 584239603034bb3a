// SPDX-License-Identifier: Apache-2.0
// Keeping memory from being swapped out.
#pragma once

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

// Locks the whole mapping until it is unmapped. Errc::exhausted with ENOMEM or EPERM: more than
// locked_memory_limit() allows, and no CAP_IPC_LOCK.
Result<> lock_memory(const Mapping& mapping);

}  // namespace penstock
