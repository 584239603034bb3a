// SPDX-License-Identifier: Apache-2.0
// The constants of the checksum that convert.hpp defines.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr std::uint64_t position_factor = 0x9e3779b97f4a7c15, length_factor = 0xd1b54a32d192ed03;

[[gnu::always_inline]] constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

}  // namespace penstock
