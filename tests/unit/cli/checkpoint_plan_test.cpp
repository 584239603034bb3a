// SPDX-License-Identifier: Apache-2.0
#include "service/cli/checkpoint_plan.hpp"

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "dataplane/core/checkpoint_parser.hpp"

namespace penstock {
namespace {

std::uint64_t data_bytes(const CheckpointPlan& plan) { return plan.file_bytes - plan.header.size(); }

CheckpointPlan plan_of(const char* shape, std::optional<std::uint64_t> bytes) {
  auto plan = plan_checkpoint(*find_shape(shape), 7, bytes);
  EXPECT_TRUE(plan);
  return *std::move(plan);
}

TEST(CheckpointPlan, ItsHeaderSatisfiesTheParser) {
  for (const Shape& shape : all_shapes()) {
    for (const std::optional<std::uint64_t> bytes :
         {std::optional<std::uint64_t>{}, std::optional{100 * mib}}) {
      const CheckpointPlan plan = plan_of(shape.name, bytes);
      const auto header = std::as_bytes(std::span(plan.header));
      const auto identified = identify(header.first(identify_bytes), plan.file_bytes);
      ASSERT_TRUE(identified) << identified.error().message;
      const auto index = parse_header(header, plan.file_bytes);
      ASSERT_TRUE(index) << shape.name << ": " << index.error().message;
      ASSERT_EQ(index->tensors().size(), plan.tensors.size());
      EXPECT_EQ(index->tensors()[1].name, plan.tensors[1].name);
      EXPECT_EQ(index->data_offset() % 8, 0u);
    }
  }
}

TEST(CheckpointPlan, ReachesTheWantedBytesWithinOneRow) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, 4096 + std::uint64_t{1}, 10 * mib, 2 * gib, 5 * gib}) {
    const CheckpointPlan plan = plan_of("sdxl", bytes);
    EXPECT_GE(data_bytes(plan), bytes);
    EXPECT_LE(data_bytes(plan), bytes + 12'000);
  }
  EXPECT_EQ(plan_of("tiny", 1).tensors.size(), 1u);
}

TEST(CheckpointPlan, RepeatsASmallShapeUnderOtherNames) {
  const CheckpointPlan plan = plan_of("tiny", 2 * mib);
  EXPECT_GE(data_bytes(plan), 2 * mib);
  EXPECT_GT(plan.tensors.size(), 100u);
  EXPECT_EQ(plan.tensors[26].name, "copy1." + plan.tensors[0].name);
}

TEST(CheckpointPlan, RefusesWhatWouldHaveTooManyTensors) {
  const auto refused = plan_checkpoint(*find_shape("tiny"), 0, 100 * gib);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::invalid_argument);
}

}  // namespace
}  // namespace penstock
