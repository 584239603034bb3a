// SPDX-License-Identifier: Apache-2.0
#include "service/cli/tensor_content.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"

namespace penstock {
namespace {

std::vector<std::byte> content(std::uint64_t seed, std::uint64_t tensor, Dtype dtype, std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  fill_content(seed, tensor, dtype, 0, out);
  return out;
}

TEST(TensorContent, DoesNotDependOnHowItIsCut) {
  const auto whole = content(3, 5, Dtype::f16, 1001);
  for (const std::size_t piece : {1u, 3u, 8u, 13u, 500u}) {
    std::vector<std::byte> pieces(whole.size());
    for (std::size_t at = 0; at < whole.size(); at += piece) {
      fill_content(3, 5, Dtype::f16, at, std::span(pieces).subspan(at, std::min(piece, whole.size() - at)));
    }
    EXPECT_EQ(pieces, whole) << piece;
  }
}

TEST(TensorContent, DependsOnSeedAndTensor) {
  const auto first = content(1, 0, Dtype::u8, 64);
  EXPECT_EQ(content(1, 0, Dtype::u8, 64), first);
  EXPECT_NE(content(2, 0, Dtype::u8, 64), first);
  EXPECT_NE(content(1, 1, Dtype::u8, 64), first);
  EXPECT_NE(content(0, 1, Dtype::u8, 64), content(1, 0, Dtype::u8, 64));
}

TEST(TensorContent, IsFiniteAndSmallInEveryFloatType) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2}) {
    const auto bytes = content(1, 2, dtype, 1 << 16);
    std::vector<float> values(bytes.size() * 8 / dtype_bits(dtype));
    convert(dtype, bytes, Dtype::f32, std::as_writable_bytes(std::span(values)), 1.0f);
    double sum = 0;
    for (const float value : values) {
      ASSERT_TRUE(std::fabs(value) < 2.0f) << dtype_name(dtype);
      sum += std::fabs(static_cast<double>(value));
    }
    EXPECT_GT(sum, 0.0);
  }
  std::vector<double> doubles(1000);
  fill_content(1, 2, Dtype::f64, 0, std::as_writable_bytes(std::span(doubles)));
  for (const double value : doubles) ASSERT_TRUE(std::fabs(value) < 2.0);
}

TEST(TensorContent, BooleansAreZeroOrOneAndIntegersSmall) {
  for (const std::byte value : content(9, 9, Dtype::boolean, 1000)) ASSERT_LE(static_cast<int>(value), 1);
  std::vector<std::uint64_t> numbers(1000);
  fill_content(9, 9, Dtype::i64, 0, std::as_writable_bytes(std::span(numbers)));
  for (const std::uint64_t number : numbers) ASSERT_LT(number, 256u);
}

}  // namespace
}  // namespace penstock
