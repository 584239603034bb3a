// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/vector_level.hpp"
#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

// The definition in convert.hpp, word by word.
std::uint64_t slow_mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ x >> 29;
}

std::uint64_t slow_checksum(const std::vector<std::byte>& bytes) {
  std::uint64_t sum = 0;
  for (std::size_t word = 0; word * 8 < bytes.size(); ++word) {
    std::uint64_t value = 0;
    for (std::size_t byte = 0; byte < 8 && word * 8 + byte < bytes.size(); ++byte) {
      value |= static_cast<std::uint64_t>(bytes[word * 8 + byte]) << (8 * byte);
    }
    sum += slow_mix(value ^ (word + 1) * 0x9e3779b97f4a7c15);
  }
  return slow_mix(sum ^ bytes.size() * 0xd1b54a32d192ed03);
}

std::vector<std::byte> random_bytes(std::size_t size) {
  Random random(size + 1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

TEST(Checksum, EqualsItsDefinitionAtEverySize) {
  for (std::size_t size = 0; size < 200; ++size)
    EXPECT_EQ(checksum(random_bytes(size)), slow_checksum(random_bytes(size)));
  EXPECT_EQ(checksum(random_bytes(100'003)), slow_checksum(random_bytes(100'003)));
}

TEST(Checksum, IsTheSameWithEveryVectorUnit) {
  for (const std::size_t size : {0u, 7u, 8u, 127u, 128u, 129u, 1000u, 100'003u}) {
    for (const VectorLevel level : vector_levels())
      EXPECT_EQ(checksum_at(level, random_bytes(size)), slow_checksum(random_bytes(size)))
          << vector_level_name(level) << ", " << size;
  }
}

// Stored pages outlive a build: these values never change.
TEST(Checksum, KeepsItsValues) {
  EXPECT_EQ(checksum({}), 0u);
  const std::vector<std::byte> zeros(4096);
  EXPECT_EQ(checksum(zeros), 0x18d18b091195611au);
  const char text[] = "penstock";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text, 8))), 0xc523ce323662ba94u);
}

TEST(Checksum, DoesNotDependOnAlignment) {
  const std::vector<std::byte> bytes = random_bytes(1000);
  std::vector<std::byte> shifted(1001);
  std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
  EXPECT_EQ(checksum(std::span(shifted).subspan(1)), checksum(bytes));
}

TEST(Checksum, ChangesWithEveryBitWithOrderAndWithLength) {
  std::vector<std::byte> bytes(256);
  std::set<std::uint64_t> seen = {checksum(bytes)};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_TRUE(seen.insert(checksum(bytes)).second) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  for (std::size_t size = 0; size < 256; ++size) {
    EXPECT_TRUE(seen.insert(checksum(std::span(bytes).first(size))).second) << size << " zero bytes";
  }
  std::vector<std::byte> page = random_bytes(8192);
  const std::uint64_t before = checksum(page);
  std::swap_ranges(page.begin(), page.begin() + 4096, page.begin() + 4096);
  EXPECT_NE(checksum(page), before);
}

}  // namespace
}  // namespace penstock::test
