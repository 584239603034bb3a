// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/convert.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/base/check.hpp"
#include "dataplane/kernels/loops_at.hpp"

namespace penstock {
namespace {

constexpr std::size_t block_elements =
    1024;  // 4 KiB of f32: stays in the first-level cache between the two loops.
using Block = std::array<float, block_elements>;

FloatFormat format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: return FloatFormat::f16;
    case Dtype::bf16: return FloatFormat::bf16;
    case Dtype::f8_e4m3: return FloatFormat::f8_e4m3;
    case Dtype::f8_e5m2: return FloatFormat::f8_e5m2;
    default: return FloatFormat::f32;
  }
}

struct Conversion {
  Widen widen;
  Narrow narrow;
  Multiply multiply;
  LookUpHalves look_up_halves;
  std::size_t stored, wanted;  // Bytes an element.
  float scale;
};

void convert_blocks(const Conversion& how, const std::byte* source, std::size_t elements,
                    std::byte* destination) {
  Block block;
  for (std::size_t done = 0; done < elements; done += block_elements) {
    const std::size_t count = std::min(block_elements, elements - done);
    how.widen(source + done * how.stored, count, block.data());
    if (how.scale != 1.0f) how.multiply(block.data(), count, how.scale);
    how.narrow(block.data(), count, destination + done * how.wanted);
  }
}

template <class Code>
void look_up(const std::array<std::byte, 1024>& table, const std::byte* source, std::size_t elements,
             std::byte* destination) {
  std::array<Code, 256> codes;
  std::memcpy(codes.data(), table.data(), sizeof codes);
  for (std::size_t index = 0; index < elements; ++index) {
    std::memcpy(destination + index * sizeof(Code), &codes[static_cast<std::uint8_t>(source[index])],
                sizeof(Code));
  }
}

// A source of one byte has 256 results: convert those, then look up. Twice as fast from a thousand elements on.
void convert_by_table(const Conversion& how, const std::byte* source, std::size_t elements,
                      std::byte* destination) {
  std::array<std::byte, 256> all_codes;
  for (std::size_t code = 0; code < all_codes.size(); ++code) all_codes[code] = static_cast<std::byte>(code);
  std::array<std::byte, 1024> table;
  convert_blocks(how, all_codes.data(), all_codes.size(), table.data());
  switch (how.wanted) {
    case 1: return look_up<std::uint8_t>(table, source, elements, destination);
    case 2: {
      if (how.look_up_halves == nullptr) return look_up<std::uint16_t>(table, source, elements, destination);
      std::array<std::uint16_t, 256> codes;
      std::memcpy(codes.data(), table.data(), sizeof codes);
      return how.look_up_halves(codes.data(), source, elements, destination);
    }
    default: return look_up<std::uint32_t>(table, source, elements, destination);
  }
}

}  // namespace

bool convertible(Dtype from, Dtype to) { return dtype_is_convertible(from) && dtype_is_convertible(to); }

void convert(Dtype from, std::span<const std::byte> source, Dtype to, std::span<std::byte> destination,
             float scale) {
  convert_at(vector_levels().back(), from, source, to, destination, scale);
}

void convert_at(VectorLevel level, Dtype from, std::span<const std::byte> source, Dtype to,
                std::span<std::byte> destination, float scale) {
  if (from == to && scale == 1.0f) {
    CHECK(source.size() == destination.size());
    if (!source.empty()) std::memcpy(destination.data(), source.data(), source.size());
    return;
  }
  CHECK(convertible(from, to));
  const ConvertLoops& loops = loops_at(level);
  const Conversion how{.widen = loops.widen[static_cast<std::size_t>(format_of(from))],
                       .narrow = loops.narrow[static_cast<std::size_t>(format_of(to))],
                       .multiply = loops.multiply,
                       .look_up_halves = loops.look_up_halves,
                       .stored = dtype_bits(from) / 8,
                       .wanted = dtype_bits(to) / 8,
                       .scale = scale};
  const std::size_t elements = source.size() / how.stored;
  CHECK(source.size() == elements * how.stored && destination.size() == elements * how.wanted);
  if (how.stored == 1 && elements >= block_elements) {
    convert_by_table(how, source.data(), elements, destination.data());
  } else {
    convert_blocks(how, source.data(), elements, destination.data());
  }
}

}  // namespace penstock
