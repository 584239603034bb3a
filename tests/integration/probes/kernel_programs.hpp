// SPDX-License-Identifier: Apache-2.0
// The BPF programs that the kernel holds, whoever loaded them.
#pragma once

#include <cstdint>
#include <set>

namespace penstock::test {

// The numbers of those with this name. The kernel uses none again soon.
std::set<std::uint32_t> programs_named(const char* name);

}  // namespace penstock::test
