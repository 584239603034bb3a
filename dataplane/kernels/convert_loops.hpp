// SPDX-License-Identifier: Apache-2.0
// The loops behind convert and checksum, compiled once for each level of vector unit: convert_<level>.cpp holds no code
// but loop_bodies.hpp, built with that level's flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

// The order of the arrays below.
enum class FloatFormat : std::uint8_t { f32, f16, bf16, f8_e4m3, f8_e5m2 };
inline constexpr std::size_t float_formats = 5;

// A NaN may leave a widening with any payload: each narrowing makes it the canonical one.
using Widen = void (*)(const std::byte* source, std::size_t count, float* out);
using Narrow = void (*)(const float* values, std::size_t count, std::byte* destination);
using Multiply = void (*)(float* values, std::size_t count, float scale);
// For sources of one byte: `table` is what each of the 256 codes becomes. Null where one after the other is faster.
using LookUpHalves = void (*)(const std::uint16_t* table, const std::byte* source, std::size_t count,
                              std::byte* destination);
// The sum of convert.hpp over `count` whole words, the first of which has the index `first`.
using Sum = std::uint64_t (*)(const std::byte* words, std::size_t count, std::uint64_t first);

struct ConvertLoops {
  Widen widen[float_formats];
  Narrow narrow[float_formats];
  Multiply multiply;
  LookUpHalves look_up_halves;
  Sum sum;
};

const ConvertLoops& portable_loops();
// Null where the build has no such level.
const ConvertLoops* avx2_loops();
const ConvertLoops* avx512_loops();

}  // namespace penstock
