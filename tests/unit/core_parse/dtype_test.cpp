// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/dtype.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

struct Expected {
  const char* name;
  std::uint32_t bits;
};

// Names and widths of the safetensors reference reader.
constexpr Expected table[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};

TEST(Dtype, HasTheNamesAndWidthsOfTheReferenceReader) {
  EXPECT_EQ(std::size(table), static_cast<std::size_t>(dtype_count));
  for (const Expected& expected : table) {
    const auto dtype = dtype_from_name(expected.name);
    ASSERT_TRUE(dtype) << expected.name;
    EXPECT_EQ(dtype_name(*dtype), expected.name);
    EXPECT_EQ(dtype_bits(*dtype), expected.bits) << expected.name;
    EXPECT_EQ(dtype_alignment(*dtype), expected.bits < 8 ? 1 : expected.bits / 8);
  }
  EXPECT_EQ(dtype_name(Dtype::f8_e4m3fnuz), "F8_E4M3FNUZ");
  EXPECT_EQ(dtype_name(Dtype::bf16), "BF16");
}

TEST(Dtype, ConvertsAmongFiveFloatTypes) {
  int count = 0;
  for (int value = 0; value < dtype_count; ++value) count += dtype_is_convertible(static_cast<Dtype>(value));
  EXPECT_EQ(count, 5);
  EXPECT_FALSE(dtype_is_convertible(Dtype::f64));
}

}  // namespace
}  // namespace penstock
