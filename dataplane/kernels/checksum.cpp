// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>

#include "dataplane/kernels/checksum_mix.hpp"
#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/loops_at.hpp"

namespace penstock {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return checksum_at(vector_levels().back(), bytes);
}

std::uint64_t checksum_at(VectorLevel level, std::span<const std::byte> bytes) {
  const std::size_t words = bytes.size() / 8, left = bytes.size() % 8;
  // AVX2 has no product of 64 bits; putting it together from parts takes three times as long as one lane after the other.
  const VectorLevel used = level == VectorLevel::avx2 ? VectorLevel::portable : level;
  std::uint64_t sum = loops_at(used).sum(bytes.data(), words, 0);
  if (left > 0) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + 8 * words, left);
    sum += mix(word ^ (words + 1) * position_factor);
  }
  return checksum_total(sum, bytes.size());
}

std::uint64_t checksum_total(std::uint64_t sum, std::uint64_t length) {
  return mix(sum ^ length * length_factor);
}

}  // namespace penstock
