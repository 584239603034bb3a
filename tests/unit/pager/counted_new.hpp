// SPDX-License-Identifier: Apache-2.0
// Counts what the whole program allocates with operator new. Link it into a program of its own.
#pragma once

#include <cstdint>

namespace penstock::test {

std::uint64_t allocations();

}  // namespace penstock::test
