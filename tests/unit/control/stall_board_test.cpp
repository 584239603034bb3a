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

TEST(StallBoard, TheServicesOwnPressureStandsInForThatOfALimitThatIsGone) {
  StallBoard board;
  board.see(PressureScope::limit, stalls_of(9), start);
  const Nanoseconds later = start + StallBoard::age_max + Nanoseconds(1);
  board.see(PressureScope::service, stalls_of(1), later);
  EXPECT_EQ(board.read(start).own->totals.some, std::chrono::seconds(9));
  const StallsSeen seen = board.read(later);
  ASSERT_TRUE(seen.own);
  EXPECT_EQ(seen.own->totals.some, std::chrono::seconds(1));
  // Totals of different cgroups say nothing about each other.
  EXPECT_NE(seen.own->source, board.read(start).own->source);
}

}  // namespace
}  // namespace penstock
