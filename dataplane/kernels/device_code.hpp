// SPDX-License-Identifier: Apache-2.0
// The device code in this binary, and how its kernels are fed. Pure functions over constant data; any thread.
//
// Which architectures are there depends on the compilers that the build found. A device without code is no error: its
// writer converts on the host (convert.hpp), and copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/core/dtype.hpp"
#include "dataplane/kernels/kernel_arguments.hpp"

namespace penstock {

inline constexpr const char* scatter_kernel = "penstock_scatter";
inline constexpr const char* checksum_kernel = "penstock_checksum";

// The fat binary for cuModuleLoadData, which picks the device's machine code, or compiles the PTX of the oldest
// architecture. Empty when there is none.
std::span<const std::byte> cuda_device_code();
// The code object for hipModuleLoadData on a device with this gcnArchName ("gfx90a:sramecc+:xnack-"; what follows the
// colon is left to the code, which runs with either setting). Empty when there is none.
std::span<const std::byte> hip_device_code(std::string_view architecture);

struct DeviceCodeEntry {
  std::string_view architecture;  // "sm_80", "compute_75" (PTX), "gfx90a".
  std::string_view missing;       // Why it is not in this binary; empty when it is.
};
// All that the project knows of, for reports.
std::span<const DeviceCodeEntry> device_code_entries();

// bytes for types that are only copied.
ElementKind element_kind(Dtype dtype);
std::uint32_t element_bytes(ElementKind kind);

// Appends `whole`, cut into pieces of a block's size, at most scatter_pieces(whole) of them.
// REQUIRES: the kinds are both bytes, or neither.
void cut_pieces(const ScatterPiece& whole, std::vector<ScatterPiece>& pieces);
std::uint64_t scatter_pieces(const ScatterPiece& whole);

// Appends the tiles of one page, whose sum is to arrive in sums[sum]; checksum_total (convert.hpp) ends it.
// REQUIRES: address is a multiple of 8.
void cut_tiles(std::uint64_t address, std::uint64_t bytes, std::uint32_t sum,
               std::vector<ChecksumTile>& tiles);
std::uint64_t checksum_tiles(std::uint64_t bytes);

}  // namespace penstock
