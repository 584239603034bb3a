// SPDX-License-Identifier: Apache-2.0
// The cases of two admissions at once, of hold and wait, and of counters below zero, on a device of 8192 MiB.
#include <gtest/gtest.h>

#include "tests/support/random.hpp"
#include "tests/unit/policy/played_ledger.hpp"

namespace penstock {
namespace {

using test::PlayedLedger;
using test::seconds;

constexpr int rounds = 1000;

TEST(CaseG02, OfTwoThatAskAtTheSameInstantExactlyOneIsAdmitted) {
  test::Random random(2);
  PlayedLedger played(PlayedLedger::of_mib(8192));
  for (int round = 0; round < rounds; ++round) {
    played.open(1);
    played.open(2);
    const bool waits = random.one_in(2);
    const std::uint32_t first = random.one_in(2) ? 1 : 2;
    played.pager.used_bytes = random.below(played.pager.budget_bytes / mib + 1) * mib;
    const Nanoseconds patience = waits ? Nanoseconds(seconds(5)) : Nanoseconds(0);
    const DemandId one = played.ask(first, 5000, patience), other = played.ask(3 - first, 5000, patience);
    ASSERT_TRUE(played.admitted(one));
    ASSERT_FALSE(played.admitted(other));
    ASSERT_EQ(played.booked_mib(), 5000u);
    if (!waits) {
      ASSERT_TRUE(played.refused(other));
      ASSERT_EQ(played.refused(other)->failure.message.find("needs 5000 MiB, free 3192 MiB of 8192 MiB"), 0u)
          << played.refused(other)->failure.message;
    }
    // One asks while the other gives back.
    played.release(first, played.admitted(one)->grant);
    ASSERT_EQ(played.admitted(other).has_value(), waits);
    ASSERT_EQ(played.booked_mib(), waits ? 5000u : 0u);
    played.close(1);
    played.close(2);
    ASSERT_EQ(played.booked_mib(), 0u);
    ASSERT_EQ(played.ledger.figures().free_bytes, 8192 * mib);
    ASSERT_EQ(played.pager.budget_bytes, 8192 * mib);
  }
}

TEST(CaseG02, MemoryThatGrowsDuringAnAdmissionIsNoError) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.pager.silent = true;
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .foreign_bytes = 3000 * mib});
  const DemandId demand = played.ask(1, 5000);
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .foreign_bytes = 1000 * mib});
  played.pager.silent = false;
  played.step(ledger::Tick{});
  ASSERT_TRUE(played.admitted(demand));
  EXPECT_EQ(played.admitted(demand)->work_bytes, 5000 * mib);
}

TEST(CaseG03, OfTwoThatHoldAndWaitTheSecondIsRefusedAndTheFirstProceeds) {
  for (int round = 0; round < rounds; ++round) {
    PlayedLedger played(PlayedLedger::of_mib(8192));
    played.open(1);
    played.open(2);
    const DemandId a = played.ask(1, 4096), b = played.ask(2, 4096);
    ASSERT_TRUE(played.admitted(a) && played.admitted(b));
    const DemandId a2 = played.ask(1, 4096), b2 = played.ask(2, 4096);
    ASSERT_TRUE(played.waits(a2));
    ASSERT_TRUE(played.refused(b2));
    ASSERT_EQ(played.refused(b2)->failure.kind, FailureKind::would_deadlock);
    ASSERT_EQ(played.refused(b2)->failure.message,
              "needs 4096 MiB, free 0 MiB: what is missing is held by sessions that wait themselves; this "
              "one holds 4096 "
              "MiB");
    played.release(2, played.admitted(b)->grant);
    ASSERT_TRUE(played.admitted(a2));
  }
}

TEST(CaseG03, ALongerCircleIsFoundToo) {
  PlayedLedger played(PlayedLedger::of_mib(9000));
  for (std::uint32_t number = 1; number <= 3; ++number) {
    played.open(number);
    ASSERT_TRUE(played.admitted(played.ask(number, 3000)));
  }
  const DemandId one = played.ask(1, 3000), two = played.ask(2, 3000), three = played.ask(3, 3000);
  EXPECT_TRUE(played.waits(one) && played.waits(two));
  ASSERT_TRUE(played.refused(three));
  EXPECT_EQ(played.refused(three)->failure.kind, FailureKind::would_deadlock);
  played.close(3);
  EXPECT_TRUE(played.admitted(one));
  played.close(1);
  EXPECT_TRUE(played.admitted(two));
}

TEST(CaseG03, OneThatWaitsForItselfIsRefusedAtOnce) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  ASSERT_TRUE(played.admitted(played.ask(1, 8192)));
  const DemandId more = played.ask(1, 1);
  ASSERT_TRUE(played.refused(more));
  EXPECT_EQ(played.refused(more)->failure.kind, FailureKind::would_deadlock);
}

TEST(CaseG03, TwoDemandsOfOneSessionThatCannotBothBeMetAreACircle) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  ASSERT_TRUE(played.admitted(played.ask(1, 5000)));
  const DemandId one = played.ask(2, 4500), two = played.ask(2, 4500);
  EXPECT_TRUE(played.waits(one));
  ASSERT_TRUE(played.refused(two));
  EXPECT_EQ(played.refused(two)->failure.kind, FailureKind::would_deadlock);
}

TEST(CaseG03, OneThatHoldsLittleWaitsForOthersThatDoNot) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  const DemandId large = played.ask(1, 8000);
  ASSERT_TRUE(played.admitted(played.ask(2, 100)));
  const DemandId more = played.ask(2, 5000);
  EXPECT_TRUE(played.waits(more));
  played.release(1, played.admitted(large)->grant);
  EXPECT_TRUE(played.admitted(more));
}

TEST(CaseG03, WhatCanNeverFitIsRefusedAtOnce) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  const DemandId c = played.ask(1, 8193, seconds(60));
  ASSERT_TRUE(played.refused(c));
  EXPECT_EQ(played.refused(c)->failure.kind, FailureKind::never_fits);
  EXPECT_EQ(played.refused(c)->failure.message, "8193 MiB can never fit in 8192 MiB");
}

TEST(CaseG03, OneThatLeavesWhileRoomIsMadeForItLeavesNothingSetAside) {
  for (int round = 0; round < rounds; ++round) {
    PlayedLedger played(PlayedLedger::of_mib(8192));
    played.pager.used_bytes = 8192 * mib;
    played.pager.pinned_bytes = 4000 * mib;
    played.open(1);
    const DemandId d = played.ask(1, 6000);
    ASSERT_TRUE(played.waits(d));
    ASSERT_EQ(played.pager.budget_bytes, 2192 * mib);
    ASSERT_EQ(played.booked_mib(), 0u);
    if (round % 2 == 0) {
      played.close(1);
    } else {
      played.step(ledger::Cancel{.demand = d});
    }
    ASSERT_EQ(played.booked_mib(), 0u);
    ASSERT_EQ(played.pager.budget_bytes, 8192 * mib);
    ASSERT_EQ(played.ledger.next_deadline(), std::nullopt);
  }
}

TEST(CaseG03, OneThatMustWaitForOthersAgainHasNothingSetAside) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.used_bytes = 8192 * mib;
  played.pager.pinned_bytes = 4000 * mib;
  played.open(1);
  const DemandId demand = played.ask(1, 6000);
  ASSERT_EQ(played.pager.budget_bytes, 2192 * mib);
  played.step(
      ledger::RoomChanged{.capacity_bytes = 8192 * mib, .headroom_bytes = 0, .foreign_bytes = 3000 * mib});
  EXPECT_TRUE(played.waits(demand));
  EXPECT_EQ(played.pager.budget_bytes, 5192 * mib);
  EXPECT_EQ(played.ledger.next_deadline(), played.now + seconds(5));
}

TEST(CaseG04, MistakesWithGrantsChangeNothing) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  test::Random random(4);
  played.open(1);
  played.open(2);
  const GrantId kept = played.admitted(played.ask(1, 5000))->grant;
  const GrantId gone = played.admitted(played.ask(1, 1000))->grant;
  played.release(1, gone);
  ASSERT_EQ(played.released.size(), 1u);
  EXPECT_EQ(played.released[0].bytes, 1000 * mib);
  for (int mistake = 0; mistake < 10'000; ++mistake) {
    switch (random.below(5)) {
      case 0: played.release(1, gone); break;                                 // Twice.
      case 1: played.release(2, kept); break;                                 // Another session's.
      case 2: played.release(3, kept); break;                                 // By nobody.
      case 3: played.release(1, GrantId{random.next() | 1ull << 63}); break;  // Never made.
      default: played.close(3); break;                                        // Never opened.
    }
    const LedgerFigures figures = played.ledger.figures();
    ASSERT_EQ(figures.booked_bytes(), 5000 * mib);
    ASSERT_EQ(figures.free_bytes, 3192 * mib);
  }
  EXPECT_EQ(played.released.size(), 1u);
  for (const ledger::NotReleased& answer : played.not_released) {
    ASSERT_EQ(answer.failure.kind, FailureKind::not_found);
    ASSERT_EQ(answer.failure.message.find("unknown grant "), 0u);
  }
  EXPECT_TRUE(played.admitted(played.ask(2, 1)));
}

TEST(CaseG04, AReleaseAfterTheSessionIsClosedIsRefused) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  for (int round = 0; round < rounds; ++round) {
    played.open(1);
    const GrantId grant = played.admitted(played.ask(1, 8192))->grant;
    played.close(1);
    played.release(1, grant);
    ASSERT_EQ(played.released.size(), 0u);
    ASSERT_EQ(played.ledger.figures().free_bytes, 8192 * mib);
  }
}

}  // namespace
}  // namespace penstock
