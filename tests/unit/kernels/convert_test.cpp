// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/convert.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/kernels/vector_level.hpp"
#include "tests/support/poisoned_buffer.hpp"
#include "tests/support/random.hpp"
#include "tests/unit/kernels/slow_floats.hpp"

namespace penstock::test {
namespace {

constexpr Dtype all[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2};
constexpr Dtype narrow_ones[] = {Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2};

std::vector<std::byte> pack(Dtype dtype, const std::vector<std::uint32_t>& codes) {
  const std::size_t size = dtype_bits(dtype) / 8;
  std::vector<std::byte> bytes(codes.size() * size);
  for (std::size_t index = 0; index < codes.size(); ++index)
    std::memcpy(&bytes[index * size], &codes[index], size);
  return bytes;
}

std::vector<std::uint32_t> unpack(Dtype dtype, std::span<const std::byte> bytes) {
  const std::size_t size = dtype_bits(dtype) / 8;
  std::vector<std::uint32_t> codes(bytes.size() / size);
  for (std::size_t index = 0; index < codes.size(); ++index)
    std::memcpy(&codes[index], &bytes[index * size], size);
  return codes;
}

std::vector<std::uint32_t> converted(Dtype from, const std::vector<std::uint32_t>& codes, Dtype to,
                                     float scale) {
  const std::vector<std::byte> source = pack(from, codes);
  // Off any alignment, on both sides.
  PoisonedBuffer in(source.size(), 1), out(codes.size() * dtype_bits(to) / 8, 3);
  std::ranges::copy(source, in.bytes().begin());
  convert(from, in.bytes(), to, out.bytes(), scale);
  EXPECT_TRUE(out.guards_are_intact());
  for (const VectorLevel level : vector_levels()) {
    PoisonedBuffer same(out.bytes().size(), 5);
    convert_at(level, from, in.bytes(), to, same.bytes(), scale);
    EXPECT_TRUE(same.guards_are_intact());
    EXPECT_TRUE(std::ranges::equal(same.bytes(), out.bytes()))
        << vector_level_name(level) << ": " << dtype_name(from) << " to " << dtype_name(to) << " by "
        << scale;
  }
  return unpack(to, out.bytes());
}

// Widening is exact and the product is one f32 rounding, so doubles reproduce both.
std::uint32_t expected(Dtype from, std::uint32_t code, Dtype to, float scale) {
  const double product =
      static_cast<double>(static_cast<float>(slow_decode(from, code))) * static_cast<double>(scale);
  return slow_encode(to, static_cast<double>(static_cast<float>(product)));
}

void compare(Dtype from, const std::vector<std::uint32_t>& codes, Dtype to, float scale) {
  const std::vector<std::uint32_t> results = converted(from, codes, to, scale);
  for (std::size_t index = 0; index < codes.size(); ++index) {
    ASSERT_EQ(results[index], expected(from, codes[index], to, scale))
        << dtype_name(from) << " " << std::hex << codes[index] << " to " << dtype_name(to) << " by " << scale;
  }
}

std::vector<std::uint32_t> all_codes(Dtype dtype) {
  std::vector<std::uint32_t> codes(code_count(dtype));
  for (std::uint32_t code = 0; code < codes.size(); ++code) codes[code] = code;
  return codes;
}

TEST(Convert, EveryNarrowCodeToEveryFormat) {
  for (const Dtype from : narrow_ones) {
    for (const Dtype to : all) {
      if (to != from) compare(from, all_codes(from), to, 1.0f);
    }
  }
}

TEST(Convert, EveryNarrowCodeWithScales) {
  for (const Dtype from : narrow_ones) {
    for (const Dtype to : all) {
      for (const float scale : {0.37f, -2.0f, 3.0e38f, 1.0e-30f, 0.0f})
        compare(from, all_codes(from), to, scale);
    }
  }
}

// Around each number of the narrow format: itself, the halves between it and its neighbours, and one f32 bit beside.
TEST(Convert, FloatsAtEveryBorderOfRounding) {
  for (const Dtype to : narrow_ones) {
    std::vector<std::uint32_t> codes;
    for (const std::uint32_t code : all_codes(to)) {
      const double here = slow_decode(to, code), next = slow_decode(to, (code + 1) % code_count(to));
      if (!std::isfinite(here)) continue;
      const double middle = std::isfinite(next) ? (here + next) / 2 : here * 1.0625;
      for (const double value : {here, middle}) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
        for (const std::uint32_t near : {bits - 1, bits, bits + 1}) codes.push_back(near);
      }
    }
    compare(Dtype::f32, codes, to, 1.0f);
  }
}

TEST(Convert, FloatsOfAllKinds) {
  std::vector<std::uint32_t> codes = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                      0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000,
                                      0xffffffff, 0x3f800000, 0x43e00000, 0x43e7ffff, 0x43e80000, 0x43e80001,
                                      0x477fefff, 0x477ff000, 0x477fffff, 0x47800000, 0x33000000, 0x33000001};
  Random random(7);
  for (int count = 0; count < 200'000; ++count) codes.push_back(static_cast<std::uint32_t>(random.next()));
  for (const Dtype to : all) {
    for (const float scale : {1.0f, 0.7071f, -1.0e-3f}) {
      if (to != Dtype::f32 || scale != 1.0f) compare(Dtype::f32, codes, to, scale);
    }
  }
}

TEST(Convert, OverflowSaturatesWhereThereIsNoInfinity) {
  EXPECT_EQ(converted(Dtype::f32, {std::bit_cast<std::uint32_t>(1.0e9f)}, Dtype::f8_e4m3, 1),
            std::vector{0x7eu});
  EXPECT_EQ(converted(Dtype::f32, {0xff800000}, Dtype::f8_e4m3, 1), std::vector{0xfeu});
  EXPECT_EQ(converted(Dtype::f32, {0x7f800001}, Dtype::f8_e4m3, 1), std::vector{0x7fu});
  EXPECT_EQ(converted(Dtype::f32, {std::bit_cast<std::uint32_t>(1.0e9f)}, Dtype::f8_e5m2, 1),
            std::vector{0x7cu});
  EXPECT_EQ(converted(Dtype::f32, {std::bit_cast<std::uint32_t>(-1.0e9f)}, Dtype::f16, 1),
            std::vector{0xfc00u});
}

TEST(Convert, EqualTypesWithoutAScaleAreCopiedBitByBit) {
  EXPECT_EQ(converted(Dtype::f32, {0x7f800001, 0xffc01234}, Dtype::f32, 1),
            (std::vector{0x7f800001u, 0xffc01234u}));
  EXPECT_EQ(converted(Dtype::i32, {0xdeadbeef}, Dtype::i32, 1), std::vector{0xdeadbeefu});
  EXPECT_EQ(converted(Dtype::f32, {0xffc01234}, Dtype::f32, 2), std::vector{0x7fc00000u});
}

TEST(Convert, AnyNumberOfElementsIncludingNone) {
  Random random(3);
  for (const std::size_t count : {0u, 1u, 3u, 7u, 1023u, 1024u, 1025u, 5000u}) {
    std::vector<std::uint32_t> codes;
    for (std::size_t index = 0; index < count; ++index)
      codes.push_back(static_cast<std::uint32_t>(random.below(0x7c00)));
    compare(Dtype::f16, codes, Dtype::f8_e4m3, 0.5f);
  }
}

// Long sources of one byte go through a table.
TEST(Convert, LongAndShortSourcesGiveTheSame) {
  for (const Dtype from : {Dtype::f8_e4m3, Dtype::f8_e5m2}) {
    std::vector<std::uint32_t> codes;
    for (std::uint32_t index = 0; index < 1500; ++index) codes.push_back(index * 7 % 256);
    for (const Dtype to : all) {
      for (const float scale : {1.0f, 0.37f}) {
        if (to != from) compare(from, codes, to, scale);
      }
    }
  }
}

TEST(Convert, IsKnownForFiveFormatsOnly) {
  for (const Dtype from : all) {
    for (const Dtype to : all) EXPECT_TRUE(convertible(from, to));
    EXPECT_FALSE(convertible(from, Dtype::i8));
    EXPECT_FALSE(convertible(Dtype::f64, from));
  }
}

TEST(ConvertDeathTest, StopsOnADestinationOfAnotherSize) {
  std::vector<std::byte> source(4), destination(3);
  EXPECT_DEATH(convert(Dtype::f16, source, Dtype::f8_e4m3, destination, 1), "CHECK");
  EXPECT_DEATH(convert(Dtype::u8, source, Dtype::u8, destination, 1), "CHECK");
  EXPECT_DEATH(convert(Dtype::i32, source, Dtype::f32, destination, 1), "CHECK");
}

}  // namespace
}  // namespace penstock::test
