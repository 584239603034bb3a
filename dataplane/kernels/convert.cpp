// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/convert.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/base/check.hpp"
#include "dataplane/kernels/narrow_floats.hpp"

namespace penstock {
namespace {

constexpr std::size_t block_elements =
    1024;  // 4 KiB of f32: stays in the first-level cache between the two loops.
using Block = std::array<float, block_elements>;

using Widen = void (*)(const std::byte* source, std::size_t count, float* out);
using Narrow = void (*)(const float* values, std::size_t count, std::byte* destination);

template <class Format>
constexpr auto make_table() {
  std::array<float, 256> table{};
  for (std::uint32_t code = 0; code < 256; ++code) table[code] = widen<Format>(code);
  return table;
}

template <class Format>
void widen_bytes(const std::byte* source, std::size_t count, float* out) {
  static constexpr std::array<float, 256> table = make_table<Format>();
  for (std::size_t index = 0; index < count; ++index)
    out[index] = table[static_cast<std::uint8_t>(source[index])];
}

template <class Format>
void widen_halves(const std::byte* source, std::size_t count, float* out) {
  for (std::size_t index = 0; index < count; ++index) {
    std::uint16_t code;
    std::memcpy(&code, source + 2 * index, 2);
    out[index] = widen<Format>(code);
  }
}

void widen_floats(const std::byte* source, std::size_t count, float* out) {
  std::memcpy(out, source, 4 * count);
}

template <class Format>
void narrow_to_bytes(const float* values, std::size_t count, std::byte* destination) {
  for (std::size_t index = 0; index < count; ++index)
    destination[index] = static_cast<std::byte>(narrow<Format>(values[index]));
}

template <class Format>
void narrow_to_halves(const float* values, std::size_t count, std::byte* destination) {
  for (std::size_t index = 0; index < count; ++index) {
    const auto code = static_cast<std::uint16_t>(narrow<Format>(values[index]));
    std::memcpy(destination + 2 * index, &code, 2);
  }
}

void narrow_to_floats(const float* values, std::size_t count, std::byte* destination) {
  for (std::size_t index = 0; index < count; ++index) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(values[index]);
    bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000u : bits;
    std::memcpy(destination + 4 * index, &bits, 4);
  }
}

Widen widener(Dtype from) {
  switch (from) {
    case Dtype::f8_e4m3: return widen_bytes<E4m3>;
    case Dtype::f8_e5m2: return widen_bytes<E5m2>;
    case Dtype::f16: return widen_halves<F16>;
    case Dtype::bf16: return widen_halves<Bf16>;
    case Dtype::f32: return widen_floats;
    default: return nullptr;
  }
}

Narrow narrower(Dtype to) {
  switch (to) {
    case Dtype::f8_e4m3: return narrow_to_bytes<E4m3>;
    case Dtype::f8_e5m2: return narrow_to_bytes<E5m2>;
    case Dtype::f16: return narrow_to_halves<F16>;
    case Dtype::bf16: return narrow_to_halves<Bf16>;
    case Dtype::f32: return narrow_to_floats;
    default: return nullptr;
  }
}

struct Conversion {
  Widen widen;
  Narrow narrow;
  std::size_t stored, wanted;  // Bytes an element.
  float scale;
};

void multiply(Block& block, std::size_t count, float scale) {
  for (std::size_t index = 0; index < count; ++index) block[index] *= scale;
}

void convert_blocks(const Conversion& how, const std::byte* source, std::size_t elements,
                    std::byte* destination) {
  Block block;
  for (std::size_t done = 0; done < elements; done += block_elements) {
    const std::size_t count = std::min(block_elements, elements - done);
    how.widen(source + done * how.stored, count, block.data());
    if (how.scale != 1.0f) multiply(block, count, how.scale);
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
    case 2: return look_up<std::uint16_t>(table, source, elements, destination);
    default: return look_up<std::uint32_t>(table, source, elements, destination);
  }
}

}  // namespace

bool convertible(Dtype from, Dtype to) { return dtype_is_convertible(from) && dtype_is_convertible(to); }

void convert(Dtype from, std::span<const std::byte> source, Dtype to, std::span<std::byte> destination,
             float scale) {
  if (from == to && scale == 1.0f) {
    CHECK(source.size() == destination.size());
    if (!source.empty()) std::memcpy(destination.data(), source.data(), source.size());
    return;
  }
  CHECK(convertible(from, to));
  const Conversion how{.widen = widener(from),
                       .narrow = narrower(to),
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
