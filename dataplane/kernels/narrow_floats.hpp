// SPDX-License-Identifier: Apache-2.0
// One element between f32 and the narrower float formats, without branches, so that loops over them vectorise.
//
// Always inline, and without functions of the library: a copy of one of them that the linker kept from a file for newer
// processors would run on old ones.
#pragma once

#include <cstdint>

namespace penstock {

// sign, `exponent_bits`, `mantissa_bits`. `largest`: what overflow becomes; `nan`: the canonical NaN.
template <int exponent_bits, int mantissa_bits, std::uint32_t largest_code, std::uint32_t nan_code>
struct NarrowFloat {
  static constexpr int exponent = exponent_bits, mantissa = mantissa_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t largest = largest_code, nan = nan_code;
};

using F16 = NarrowFloat<5, 10, 0x7c00, 0x7e00>;
using Bf16 = NarrowFloat<8, 7, 0x7f80, 0x7fc0>;
using E5m2 = NarrowFloat<5, 2, 0x7c, 0x7e>;
using E4m3 = NarrowFloat<4, 3, 0x7e, 0x7f>;  // No infinity: the code above 448 is NaN.

// Nearest, ties to even.
template <class Format>
[[gnu::always_inline]] constexpr std::uint32_t narrow(float value) {
  constexpr int dropped = 23 - Format::mantissa;
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const std::uint32_t sign = bits >> 31 << (Format::exponent + Format::mantissa);
  // Adding half of the last kept bit, less one where that bit is even, carries exactly when the value rounds up; a
  // carry out of the mantissa is the next exponent, as it should be.
  const std::uint32_t odd = magnitude >> dropped & 1;
  const std::uint32_t rebias = static_cast<std::uint32_t>(127 - Format::bias) << 23;
  const std::uint32_t normal = (magnitude - rebias + ((1u << (dropped - 1)) - 1) + odd) >> dropped;
  std::uint32_t code = normal;
  if constexpr (Format::bias != 127) {
    // Below the smallest normal number: adding a power of two whose last bit weighs as much as the format's smallest
    // subnormal lets the addition itself do the rounding.
    constexpr std::uint32_t shift = static_cast<std::uint32_t>(127 + 1 - Format::bias - Format::mantissa + 23)
                                    << 23;
    const float shifted = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, shift);
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - shift;
    constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(127 + 1 - Format::bias) << 23;
    code = magnitude < smallest_normal ? subnormal : normal;
  }
  code = code > Format::largest ? Format::largest : code;
  return magnitude > 0x7f800000 ? Format::nan : code | sign;
}

// Exact. NaN becomes the canonical one.
template <class Format>
[[gnu::always_inline]] constexpr float widen(std::uint32_t code) {
  constexpr int added = 23 - Format::mantissa;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - Format::bias) << 23;
  constexpr std::uint32_t special = ((1u << Format::exponent) - 1)
                                    << 23;  // All exponent bits, before rebiasing.
  constexpr std::uint32_t sign_bit = 1u << (Format::exponent + Format::mantissa);
  const std::uint32_t sign = (code & sign_bit) != 0 ? 0x80000000u : 0u;
  const std::uint32_t magnitude = (code & (sign_bit - 1)) << added;
  std::uint32_t bits = magnitude + rebias;
  if constexpr (Format::bias != 127) {
    // A subnormal gets the exponent of the smallest normal number; taking away its implicit bit leaves the exact value.
    constexpr std::uint32_t smallest_normal = rebias + (1u << 23);
    const float exact =
        __builtin_bit_cast(float, magnitude + smallest_normal) - __builtin_bit_cast(float, smallest_normal);
    bits = magnitude < 1u << 23 ? __builtin_bit_cast(std::uint32_t, exact) : bits;
  }
  if constexpr (Format::largest == special >> added) {
    bits = magnitude >= special ? 0x7f800000u : bits;
  }
  const bool is_nan = (code & (sign_bit - 1)) > Format::largest;
  return __builtin_bit_cast(float, is_nan ? 0x7fc00000u : bits | sign);
}

}  // namespace penstock
