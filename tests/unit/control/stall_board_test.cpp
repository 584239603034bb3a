// SPDX-License-Identifier: Apache-2.0
#include "service/control/stall_board.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr Nanoseconds start = std::chrono::hours(1);

Pressure stalls_of(std::int64_t some_seconds) {
  const PressureLine line{.percent_of_10_s = 0, .total = std::chrono::seconds(some_seconds)};
  return {.some = line, .full = line};
}

TEST(StallBoard, APressureThatIsNotReadAnyMoreIsAbsentAfterItsTime) {
  StallBoard board;
  board.see(PressureScope::machine, stalls_of(3), start);
  const Nanoseconds last = start + StallBoard::age_max;
  ASSERT_TRUE(board.read(last).machine);
  EXPECT_EQ(board.read(last).machine->totals.some, std::chrono::seconds(3));
  EXPECT_FALSE(board.read(last + Nanoseconds(1)).machine);
  board.see(PressureScope::machine, stalls_of(4), last + Nanoseconds(1));
  EXPECT_TRUE(board.read(last + Nanoseconds(1)).machine);
}

TEST(StallBoard, TellsTheServicesOwnPressureFromThatOfALimitAboveIt) {
  StallBoard board;
  board.see(PressureScope::limit, stalls_of(9), start);
  board.pass_bound(PressureScope::limit);
  const StallsSeen others = board.read(start);
  EXPECT_FALSE(others.own);
  EXPECT_EQ(others.above->totals.some, std::chrono::seconds(9));
  EXPECT_EQ(others.bounds_passed, 0u);
  EXPECT_EQ(others.bounds_passed_above, 1u);
  const Nanoseconds later = start + StallBoard::age_max + Nanoseconds(1);
  board.see(PressureScope::service, stalls_of(1), later);
  const StallsSeen seen = board.read(later);
  ASSERT_TRUE(seen.own);
  EXPECT_EQ(seen.own->totals.some, std::chrono::seconds(1));
  // That of a limit that is gone.
  EXPECT_FALSE(seen.above);
  // Totals of different cgroups say nothing about each other.
  EXPECT_NE(seen.own->source, others.above->source);
}

}  // namespace
}  // namespace penstock
