// SPDX-License-Identifier: Apache-2.0
// Numbers of tensors and bytes as in the published files.
#include "service/cli/shapes.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace penstock {
namespace {

std::uint64_t bytes_of(const std::vector<ShapeTensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const ShapeTensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

std::uint64_t elements_of(const std::vector<ShapeTensor>& tensors) {
  std::uint64_t elements = 0;
  for (const ShapeTensor& tensor : tensors) elements += tensor.bytes() * 8 / dtype_bits(tensor.dtype);
  return elements;
}

const ShapeTensor& named(const std::vector<ShapeTensor>& tensors, std::string_view name) {
  return *std::ranges::find_if(tensors, [&](const ShapeTensor& tensor) { return tensor.name == name; });
}

TEST(Shapes, HaveDistinctNames) {
  for (const Shape& shape : all_shapes()) {
    std::set<std::string> names;
    for (const ShapeTensor& tensor : shape.tensors())
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    EXPECT_EQ(find_shape(shape.name), &shape);
  }
  EXPECT_EQ(find_shape("sd1"), nullptr);
}

TEST(Shapes, SdxlIsThePublishedFile) {
  const auto tensors = sdxl_tensors();
  EXPECT_EQ(tensors.size(), 2515u);
  EXPECT_EQ(bytes_of(tensors), 6'937'676'352u);
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(named(tensors, "model.diffusion_model.output_blocks.2.0.skip_connection.weight").shape,
            (Sizes{1280, 1920, 1, 1}));
  EXPECT_EQ(
      named(tensors, "model.diffusion_model.middle_block.1.transformer_blocks.9.attn2.to_k.weight").shape,
      (Sizes{1280, 2048}));
  EXPECT_EQ(named(tensors, "model.diffusion_model.output_blocks.8.0.in_layers.2.weight").shape,
            (Sizes{320, 640, 3, 3}));
}

TEST(Shapes, FluxDevHasTwelveBillionElements) {
  const auto tensors = flux_dev_fp8_tensors();
  EXPECT_EQ(tensors.size(), 780u);
  EXPECT_EQ(elements_of(tensors), 11'901'408'320u);
}

TEST(Shapes, T5XxlIsThePublishedFile) {
  const auto tensors = t5_xxl_tensors();
  EXPECT_EQ(tensors.size(), 220u);
  EXPECT_EQ(bytes_of(tensors), 9'787'813'888u);
}

}  // namespace
}  // namespace penstock
