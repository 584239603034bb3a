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

struct HeaderPlan {
  std::uint64_t header_bytes = 0;  // Bytes from offset 0 that parse_header wants, length field included.
};

// REQUIRES: prefix holds the first min(file_bytes, identify_bytes) bytes.
Outcome<HeaderPlan> identify(std::span<const std::byte> prefix, std::uint64_t file_bytes);
// REQUIRES: header holds the plan's bytes.
Outcome<CheckpointIndex> parse_header(std::span<const std::byte> header, std::uint64_t file_bytes);

}  // namespace penstock
