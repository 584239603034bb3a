// SPDX-License-Identifier: Apache-2.0
#include "service/cli/tensor_content.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored as they lie in memory");

constexpr std::uint64_t step = 0x9e3779b97f4a7c15;

constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The bits of each element that may be set, repeated over a word.
constexpr std::uint64_t mask_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::boolean: return 0x0101010101010101;
    case Dtype::f8_e4m3:
    case Dtype::f8_e5m2: return 0xbfbfbfbfbfbfbfbf;
    case Dtype::f16:
    case Dtype::bf16: return 0xbfffbfffbfffbfff;
    case Dtype::c64:
    case Dtype::f32: return 0xbfffffffbfffffff;
    case Dtype::f64: return 0xbfffffffffffffff;
    case Dtype::i16:
    case Dtype::u16: return 0x00ff00ff00ff00ff;
    case Dtype::i32:
    case Dtype::u32: return 0x000000ff000000ff;
    case Dtype::i64:
    case Dtype::u64: return 0x00000000000000ff;
    default: return ~std::uint64_t{0};
  }
}

}  // namespace

void fill_content(std::uint64_t seed, std::uint64_t tensor, Dtype dtype, std::uint64_t at,
                  std::span<std::byte> out) {
  const std::uint64_t key = mix(seed * step + 1) ^ mix((tensor + 1) * step), mask = mask_of(dtype);
  const auto word_at = [&](std::uint64_t index) { return mix(key + index * step) & mask; };
  std::uint64_t index = at / 8;
  if (const std::size_t skip = at % 8; skip != 0) {
    const std::uint64_t word = word_at(index++) >> (8 * skip);
    const std::size_t bytes = std::min(8 - skip, out.size());
    std::memcpy(out.data(), &word, bytes);
    out = out.subspan(bytes);
  }
  std::byte* place = out.data();
  for (std::size_t words = out.size() / 8; words > 0; --words, place += 8) {
    const std::uint64_t word = word_at(index++);
    std::memcpy(place, &word, 8);
  }
  if (const std::size_t rest = out.size() % 8; rest != 0) {
    const std::uint64_t word = word_at(index);
    std::memcpy(place, &word, rest);
  }
}

}  // namespace penstock
