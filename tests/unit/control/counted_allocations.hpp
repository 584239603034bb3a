// SPDX-License-Identifier: Apache-2.0
// Counts the calling thread's allocations until a descriptor is readable.
#pragma once

namespace penstock::test {

// -1 stops counting.
void count_allocations_until_readable(int fd);
int counted_allocations();

}  // namespace penstock::test
