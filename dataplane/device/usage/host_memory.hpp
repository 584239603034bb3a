// SPDX-License-Identifier: Apache-2.0
// The machine's memory, for devices that have none of their own.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/result.hpp"

namespace penstock {

struct HostMemory {
  std::uint64_t total_bytes = 0;
  // What can be had without swapping: free, and page cache that the kernel would give up.
  std::uint64_t available_bytes = 0;
};

// From `proc`/meminfo.
Result<HostMemory> read_host_memory(const std::string& proc);

}  // namespace penstock
