// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_kernels.hpp"

#include <algorithm>
#include <thread>

#include "dataplane/core/dtype.hpp"
#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/kernel_arguments.hpp"
#include "tests/fakes/engine/address_space.hpp"
#include "tests/fakes/engine/host_memory.hpp"
#include "tests/fakes/engine/work.hpp"

namespace penstock::fake {
namespace {

Dtype dtype_of(ElementKind kind) {
  switch (kind) {
    case ElementKind::f32: return Dtype::f32;
    case ElementKind::f16: return Dtype::f16;
    case ElementKind::bf16: return Dtype::bf16;
    case ElementKind::f8_e4m3: return Dtype::f8_e4m3;
    case ElementKind::f8_e5m2: return Dtype::f8_e5m2;
    case ElementKind::bytes: break;
  }
  return Dtype::u8;
}

std::uint64_t bytes_of(ElementKind kind) {
  if (kind == ElementKind::f32) return 4;
  return kind == ElementKind::f16 || kind == ElementKind::bf16 ? 2 : 1;
}

// penstock_scatter(const ScatterPiece* pieces), grid = pieces.
CudaResult scatter(const KernelLaunch& launch) {
  std::vector<ScatterPiece> pieces;
  if (const CudaResult bad = launch.read_array(launch.parameter<std::uint64_t>(0), launch.grid, pieces))
    return bad;
  for (const ScatterPiece& piece : pieces) {
    std::vector<std::byte> source;
    const std::uint64_t source_bytes = piece.elements * bytes_of(piece.stored);
    if (const CudaResult bad = launch.read_array(piece.source, source_bytes, source)) return bad;
    std::vector<std::byte> result = source;
    if (piece.stored != ElementKind::bytes) {
      result.resize(piece.elements * bytes_of(piece.wanted));
      convert(dtype_of(piece.stored), source, dtype_of(piece.wanted), result, piece.scale);
    }
    const CudaResult bad = launch.write(piece.destination, result.size(), [&](std::byte* memory) {
      std::copy(result.begin(), result.end(), memory);
    });
    if (bad != cuda_success) return bad;
  }
  return cuda_success;
}

// The sum over one tile of what convert.hpp's checksum adds up, before its last step.
std::uint64_t tile_sum(const ChecksumTile& tile, const std::byte* bytes) {
  std::uint64_t sum = 0;
  for (std::uint64_t at = 0, index = tile.first_word; at < tile.bytes; at += 8, ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<std::uint64_t>(8, tile.bytes - at));
    word ^= (index + 1) * 0x9e3779b97f4a7c15U;
    word ^= word >> 32;
    word *= 0xbf58476d1ce4e5b9U;
    word ^= word >> 29;
    sum += word;
  }
  return sum;
}

// penstock_checksum(const ChecksumTile* tiles, unsigned long long* sums), grid = tiles.
CudaResult checksum_tiles(const KernelLaunch& launch) {
  std::vector<ChecksumTile> tiles;
  if (const CudaResult bad = launch.read_array(launch.parameter<std::uint64_t>(0), launch.grid, tiles))
    return bad;
  for (const ChecksumTile& tile : tiles) {
    std::uint64_t sum = 0;
    CudaResult bad =
        launch.read(tile.address, tile.bytes, [&](const std::byte* bytes) { sum = tile_sum(tile, bytes); });
    if (bad != cuda_success) return bad;
    bad = launch.write(launch.parameter<std::uint64_t>(1) + tile.sum * 8, 8, [&](std::byte* memory) {
      std::uint64_t total = 0;
      std::memcpy(&total, memory, 8);
      total += sum;
      std::memcpy(memory, &total, 8);
    });
    if (bad != cuda_success) return bad;
  }
  return cuda_success;
}

// penstock_fake_hold(const unsigned* flag, const void* memory, unsigned long long bytes): runs until the flag is not
// zero, then reads the memory once: a kernel that a test holds while it revokes.
CudaResult hold(const KernelLaunch& launch) {
  const auto flag = launch.parameter<std::uint64_t>(0);
  for (std::uint32_t value = 0; value == 0; std::this_thread::yield()) {
    const CudaResult bad = launch.read(flag, sizeof value, [&](const std::byte* memory) {
      value = __atomic_load_n(reinterpret_cast<const std::uint32_t*>(memory), __ATOMIC_ACQUIRE);
    });
    if (bad != cuda_success) return bad;
  }
  return launch.read(launch.parameter<std::uint64_t>(1), launch.parameter<std::uint64_t>(2),
                     [](const std::byte* /*memory*/) {});
}

// The list of a launch and, where it lies in host memory, its entries. One in device memory may be the work of a copy
// that is still queued.
template <class Entry>
std::vector<Entry> listed(const KernelLaunch& launch, std::vector<UsedRange>& uses) {
  const UsedRange list{launch.parameter<std::uint64_t>(0), launch.grid * sizeof(Entry)};
  uses.push_back(list);
  std::vector<Entry> entries;
  if (HostMemory::instance().is_registered(list.address, list.size))
    static_cast<void>(launch.read_array(list.address, launch.grid, entries));
  return entries;
}

std::vector<UsedRange> scattered(const KernelLaunch& launch) {
  std::vector<UsedRange> uses;
  for (const ScatterPiece& piece : listed<ScatterPiece>(launch, uses)) {
    uses.push_back({piece.source, piece.elements * bytes_of(piece.stored)});
    uses.push_back({piece.destination, piece.elements * bytes_of(piece.wanted)});
  }
  return uses;
}

std::vector<UsedRange> summed(const KernelLaunch& launch) {
  std::vector<UsedRange> uses;
  for (const ChecksumTile& tile : listed<ChecksumTile>(launch, uses)) {
    uses.push_back({tile.address, tile.bytes});
    uses.push_back({launch.parameter<std::uint64_t>(1) + tile.sum * 8, 8});
  }
  return uses;
}

std::vector<UsedRange> held(const KernelLaunch& launch) {
  return {{launch.parameter<std::uint64_t>(0), sizeof(std::uint32_t)},
          {launch.parameter<std::uint64_t>(1), launch.parameter<std::uint64_t>(2)}};
}

const FakeKernel table[] = {
    {"penstock_scatter", {8}, scatter, scattered},
    {"penstock_checksum", {8, 8}, checksum_tiles, summed},
    {"penstock_fake_hold", {8, 8, 8}, hold, held},
};

}  // namespace

CudaResult KernelLaunch::read(std::uint64_t address, std::uint64_t size,
                              const std::function<void(const std::byte*)>& body) const {
  if (size == 0) return cuda_success;
  const char* why = AddressSpace::instance().with_access(device, address, size, Access::read,
                                                         [&](std::byte* memory) { body(memory); });
  return why == nullptr ? cuda_success : bad_access("kernel read of", address, size, why);
}

CudaResult KernelLaunch::write(std::uint64_t address, std::uint64_t size,
                               const std::function<void(std::byte*)>& body) const {
  if (size == 0) return cuda_success;
  const char* why = AddressSpace::instance().with_access(device, address, size, Access::read_write, body);
  return why == nullptr ? cuda_success : bad_access("kernel write of", address, size, why);
}

const FakeKernel* find_kernel(std::string_view name) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const FakeKernel& each) { return each.name == name; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace penstock::fake
