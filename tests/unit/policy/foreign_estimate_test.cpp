// SPDX-License-Identifier: Apache-2.0
#include "service/policy/foreign_estimate.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ForeignEstimate, KnowsNothingBeforeTheFirstReading) {
  ForeignEstimate estimate;
  EXPECT_EQ(estimate.bytes(), std::nullopt);
  estimate.read(10, 30);
  EXPECT_EQ(estimate.bytes(), 30u);
}

TEST(ForeignEstimate, GrowsAtOnceAndFallsAfterThreeReadings) {
  ForeignEstimate estimate;
  estimate.read(10, 10);
  estimate.read(50, 50);
  EXPECT_EQ(estimate.bytes(), 50u);
  estimate.read(20, 20);
  estimate.read(20, 20);
  EXPECT_EQ(estimate.bytes(), 50u);
  estimate.read(20, 20);
  EXPECT_EQ(estimate.bytes(), 20u);
}

TEST(ForeignEstimate, OurOwnComingAndGoingIsNobodysGrowth) {
  ForeignEstimate estimate;
  estimate.read(100, 100);
  for (std::uint64_t round = 0; round < 10; ++round) estimate.read(40 + round, 160 - round);
  EXPECT_EQ(estimate.bytes(), 100u);
  estimate.read(120, 300);
  EXPECT_EQ(estimate.bytes(), 120u);
}

}  // namespace
}  // namespace penstock
