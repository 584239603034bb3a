// SPDX-License-Identifier: Apache-2.0
// From the first bytes of a file to a CheckpointIndex. Pure: the caller reads.
//
// Two steps, so that nothing large is read or allocated before it is known to be sane:
//   1. `identify` looks at the first bytes (up to 64) and the file's size and says how long the header is;
//   2. `parse_header` takes exactly that many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/failure.hpp"
#include "dataplane/core/checkpoint_index.hpp"

namespace penstock {

inline constexpr std::uint64_t header_bytes_max = 100'000'000;  // The safetensors reference reader's limit.
inline constexpr std::uint64_t identify_bytes = 256;            // Enough for an LFS pointer, too.
// Values (tensors, fields, dimensions, offsets) in one header: bounds the memory that a hostile header of 100 MB can
// make the parser use to about 300 MB, and leaves room for ten times the largest checkpoint that is known.
inline constexpr std::uint64_t header_values_max = 8'000'000;
inline constexpr std::size_t header_depth_max = 128;  // Nested objects and arrays, as the reference reader.
inline constexpr std::uint64_t file_bytes_max = 1ull << 43;  // 8 TiB; keeps the number of pages in 32 bits.

struct HeaderPlan {
  std::uint64_t header_bytes = 0;  // Bytes from offset 0 that parse_header wants, length field included.
};

// REQUIRES: prefix holds the first min(file_bytes, identify_bytes) bytes.
Outcome<HeaderPlan> identify(std::span<const std::byte> prefix, std::uint64_t file_bytes);
// REQUIRES: header holds as many bytes as the plan said. They may be other bytes than identify saw, if the file is being
// written: that is answered with `changed_while_read`.
Outcome<CheckpointIndex> parse_header(std::span<const std::byte> header, std::uint64_t file_bytes);

}  // namespace penstock
