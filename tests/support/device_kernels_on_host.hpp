// SPDX-License-Identifier: Apache-2.0
// The device code, compiled for the host: one call runs a whole launch, one thread after the other. Addresses in the
// lists are the host's. For the fake drivers, and for comparisons with the reference.
#pragma once

#include <cstdint>

#include "dataplane/kernels/kernel_arguments.hpp"

namespace penstock::test {

// A launch of penstock_scatter with `grid` blocks.
void run_scatter_on_host(const ScatterPiece* pieces, std::uint32_t grid);
// A launch of penstock_checksum. Adds to `sums`.
void run_checksum_on_host(const ChecksumTile* tiles, unsigned long long* sums, std::uint32_t grid);

}  // namespace penstock::test
