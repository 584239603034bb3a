// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstring>

#include "dataplane/kernels/convert.hpp"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::uint64_t position_factor = 0x9e3779b97f4a7c15, length_factor = 0xd1b54a32d192ed03;

constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t lanes = 4;
  std::array<std::uint64_t, lanes> sums{};
  std::uint64_t position = 0;  // (i + 1) * position_factor, for the words done.
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8 * lanes; left -= 8 * lanes, at += 8 * lanes) {
    std::array<std::uint64_t, lanes> words;
    std::memcpy(words.data(), at, sizeof words);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += mix(words[lane] ^ (position + (lane + 1) * position_factor));
    }
    position += lanes * position_factor;
  }
  std::uint64_t sum = sums[0] + sums[1] + sums[2] + sums[3];
  while (left > 0) {
    const std::size_t taken = left < 8 ? left : 8;
    std::uint64_t word = 0;
    std::memcpy(&word, at, taken);
    position += position_factor;
    sum += mix(word ^ position);
    at += taken;
    left -= taken;
  }
  return checksum_total(sum, bytes.size());
}

std::uint64_t checksum_total(std::uint64_t sum, std::uint64_t length) {
  return mix(sum ^ length * length_factor);
}

}  // namespace penstock
