// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/checkpoint_index.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

CheckpointIndex example() {
  std::vector<TensorEntry> tensors;
  for (const char* name : {"b", "a", "", "a.longer.name.than.any.small.string.holds"}) {
    tensors.push_back(
        {.name = name, .dtype = Dtype::u8, .shape = {2}, .extent = {100 + 2 * tensors.size(), 2}, .file = 0});
  }
  return CheckpointIndex("safetensors", 108, 100, std::move(tensors), {});
}

TEST(CheckpointIndex, FindsEachTensorByItsName) {
  const CheckpointIndex index = example();
  for (const TensorEntry& tensor : index.tensors()) EXPECT_EQ(index.find(tensor.name), &tensor);
  EXPECT_EQ(index.find("c"), nullptr);
  EXPECT_EQ(index.find("a."), nullptr);
  EXPECT_EQ(index.tensor_bytes(), 8u);
  EXPECT_EQ(CheckpointIndex().find("a"), nullptr);
}

TEST(CheckpointIndex, StillFindsThemAfterAMove) {
  CheckpointIndex source = example();
  const CheckpointIndex index = std::move(source);
  EXPECT_EQ(index.find("b")->extent.offset, 100u);
}

TEST(CheckpointIndexDeathTest, StopsOnARepeatedName) {
  std::vector<TensorEntry> tensors(2);
  EXPECT_DEATH(CheckpointIndex("safetensors", 0, 0, std::move(tensors), {}), "CHECK");
}

}  // namespace
}  // namespace penstock
