// SPDX-License-Identifier: Apache-2.0
// How often this program has called operator new.
#pragma once

#include <cstdint>

namespace penstock::test {

std::uint64_t allocations();

}  // namespace penstock::test
