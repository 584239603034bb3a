// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device_kernels_on_host.hpp"

namespace {
// Where the running thread of a launch stands.
thread_local unsigned int block_now = 0, thread_now = 0;
}  // namespace

#define PENSTOCK_KERNEL static
#define PENSTOCK_DEVICE inline
#define PENSTOCK_GLOBAL
#define PENSTOCK_BLOCK block_now
#define PENSTOCK_THREAD thread_now
#define PENSTOCK_ADD(sum, value) (*(sum) += (value))
#include "dataplane/kernels/device_kernels.cu"

namespace penstock::test {
namespace {

template <class Kernel>
void launch(std::uint32_t grid, const Kernel& kernel) {
  for (block_now = 0; block_now < grid; ++block_now) {
    for (thread_now = 0; thread_now < kernel_threads; ++thread_now) kernel();
  }
}

}  // namespace

void run_scatter_on_host(const ScatterPiece* pieces, std::uint32_t grid) {
  launch(grid, [pieces] { penstock_scatter(pieces); });
}

void run_checksum_on_host(const ChecksumTile* tiles, unsigned long long* sums, std::uint32_t grid) {
  launch(grid, [tiles, sums] { penstock_checksum(tiles, sums); });
}

}  // namespace penstock::test
