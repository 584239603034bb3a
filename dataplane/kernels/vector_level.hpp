// SPDX-License-Identifier: Apache-2.0
// Which of a processor's vector units the reference uses. Results do not depend on it; only tests and measurements
// name a level, everybody else gets the best one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/core/dtype.hpp"

namespace penstock {

enum class VectorLevel : std::uint8_t {
  portable,  // What the compiler makes for any processor of the target: SSE2, NEON.
  avx2,      // With F16C.
  avx512,    // F, BW, DQ and VL.
};

// Those that this processor has, the best one last.
std::span<const VectorLevel> vector_levels();
std::string_view vector_level_name(VectorLevel level);

// convert and checksum of convert.hpp. REQUIRES: vector_levels() has the level.
void convert_at(VectorLevel level, Dtype from, std::span<const std::byte> source, Dtype to,
                std::span<std::byte> destination, float scale);
std::uint64_t checksum_at(VectorLevel level, std::span<const std::byte> bytes);

}  // namespace penstock
