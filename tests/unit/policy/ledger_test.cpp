// SPDX-License-Identifier: Apache-2.0
#include "service/policy/ledger.hpp"

#include <gtest/gtest.h>

#include "tests/unit/policy/played_ledger.hpp"

namespace penstock {
namespace {

using test::milliseconds;
using test::PlayedLedger;
using test::seconds;

TEST(Ledger, SplitsTheDeviceIntoHeadroomForeignBookedAndFree) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.room.headroom_bytes = 512 * mib;
  options.room.foreign_bytes = 1000 * mib;
  PlayedLedger played(options);
  EXPECT_EQ(played.ledger.pager_budget_bytes(), 6680 * mib);
  played.open(1);
  played.ask(1, 1000, seconds(1), 0, 2000);
  const LedgerFigures figures = played.ledger.figures();
  EXPECT_EQ(figures.booked_work_bytes, 1000 * mib);
  EXPECT_EQ(figures.booked_weights_bytes, 2000 * mib);
  EXPECT_EQ(figures.free_bytes, 3680 * mib);
  EXPECT_EQ(figures.pager_budget_bytes, 5680 * mib);
  EXPECT_EQ(played.pager.budget_bytes, 5680 * mib);
}

TEST(Ledger, OthersUseWhatTheCapacityLeavesThemFirst) {
  LedgerOptions options = PlayedLedger::of_mib(4096);
  options.room.total_bytes = 8192 * mib;
  options.room.headroom_bytes = 96 * mib;
  options.room.foreign_bytes = 4096 * mib;
  EXPECT_EQ(PlayedLedger(options).ledger.figures().free_bytes, 4000 * mib);
  options.room.foreign_bytes = 5096 * mib;
  PlayedLedger played(options);
  EXPECT_EQ(played.ledger.figures().free_bytes, 3000 * mib);
  EXPECT_EQ(played.ledger.pager_budget_bytes(), 3000 * mib);
  played.open(1);
  const DemandId demand = played.ask(1, 3500, seconds(1));
  played.pass(seconds(1));
  ASSERT_TRUE(played.refused(demand));
  EXPECT_EQ(played.refused(demand)->failure.kind, FailureKind::foreign_usage);
}

TEST(Ledger, ForeignUseThatIsNotKnownIsAssumedAndNotShown) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.room.assumed_foreign_bytes = 1000 * mib;
  PlayedLedger played(options);
  EXPECT_EQ(played.ledger.figures().free_bytes, 7192 * mib);
  EXPECT_EQ(played.ledger.figures().foreign_bytes, std::nullopt);
  EXPECT_EQ(played.ledger.figures().counted_foreign_bytes, 1000 * mib);
}

TEST(Ledger, OrdersASmallerBudgetWhenOthersGrowAndKnowsASessionsWork) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.ask(1, 1000, seconds(1), 0, 500);
  EXPECT_EQ(played.ledger.work_bytes(test::session(1)), 1000 * mib);
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .foreign_bytes = 3000 * mib});
  EXPECT_EQ(played.pager.budget_bytes, 4192 * mib);
  EXPECT_EQ(played.ledger.figures().free_bytes, 3692 * mib);
}

TEST(Ledger, LeavesThePagerNoMoreThanPressureAllowsAndAdmitsAgainWhenItEnds) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.step(ledger::RoomChanged{
      .capacity_bytes = 8192 * mib, .headroom_bytes = 100 * mib, .allowed_bytes = 1000 * mib});
  EXPECT_EQ(played.pager.budget_bytes, 1000 * mib);
  EXPECT_EQ(played.ledger.figures().allowed_bytes, 1000 * mib);
  const DemandId demand = played.ask(1, 2000, seconds(5));
  EXPECT_TRUE(played.waits(demand));
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .headroom_bytes = 100 * mib});
  EXPECT_TRUE(played.admitted(demand));
  EXPECT_EQ(played.pager.budget_bytes, 6092 * mib);
  EXPECT_EQ(played.ledger.figures().allowed_bytes, 8192 * mib);
}

TEST(Ledger, BooksWeightsWithoutAskingThePager) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.silent = true;
  played.open(1);
  const DemandId demand = played.ask(1, 0, seconds(0), 0, 8192);
  ASSERT_TRUE(played.admitted(demand));
  EXPECT_EQ(played.admitted(demand)->weights_bytes, 8192 * mib);
  EXPECT_TRUE(played.orders.empty());
}

TEST(Ledger, GrantsWorkOnlyOnceThePagerKeepsToTheSmallerBudget) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.silent = true;
  played.pager.used_bytes = 8000 * mib;
  played.open(1);
  const DemandId demand = played.ask(1, 1000);
  ASSERT_EQ(played.orders.size(), 1u);
  EXPECT_EQ(played.orders[0].bytes, 7192 * mib);
  EXPECT_TRUE(played.waits(demand));
  EXPECT_EQ(played.booked_mib(), 0u);
  played.step(ledger::BudgetAnswered{.order = BudgetOrder{77}, .used_bytes = 0});  // Nobody's answer.
  EXPECT_TRUE(played.waits(demand));
  played.step(played.pager.obey(played.orders[0]));
  ASSERT_TRUE(played.admitted(demand));
  EXPECT_EQ(played.admitted(demand)->work_bytes, 1000 * mib);
  EXPECT_EQ(played.booked_mib(), 1000u);
}

TEST(Ledger, AnswersOfAnEarlierOrderCountNothing) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.silent = true;
  played.open(1);
  const DemandId demand = played.ask(1, 1000);
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .headroom_bytes = 100 * mib});
  ASSERT_EQ(played.orders.size(), 2u);
  EXPECT_EQ(played.orders[1].bytes, 7092 * mib);
  played.step(ledger::BudgetAnswered{.order = played.orders[0].order, .used_bytes = 7192 * mib});
  EXPECT_TRUE(played.waits(demand));
  played.step(ledger::BudgetAnswered{.order = played.orders[1].order, .used_bytes = 7092 * mib});
  EXPECT_TRUE(played.admitted(demand));
}

TEST(Ledger, GrantsLessWorkThanWantedButNotLessThanTheMinimum) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  played.ask(1, 6000);
  const DemandId some = played.ask(2, 4000, seconds(0), 2000);
  ASSERT_TRUE(played.admitted(some));
  EXPECT_EQ(played.admitted(some)->work_bytes, 2192 * mib);
  EXPECT_TRUE(played.refused(played.ask(2, 4000, seconds(0), 1)));
  EXPECT_EQ(played.ledger.figures().admissions.admitted_partial, 1u);
}

TEST(Ledger, PinnedPagesLeaveAsMuchWorkAsThereIsBesideThem) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.used_bytes = 8192 * mib;
  played.pager.pinned_bytes = 5000 * mib;
  played.open(1);
  const DemandId some = played.ask(1, 4000, seconds(5), 3000);
  ASSERT_TRUE(played.admitted(some));
  EXPECT_EQ(played.admitted(some)->work_bytes, 3192 * mib);
  EXPECT_EQ(played.pager.budget_bytes, 5000 * mib);
}

TEST(Ledger, WaitsForPinsAndAsksThePagerAgainUntilTheDeadline) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.used_bytes = 8192 * mib;
  played.pager.pinned_bytes = 6000 * mib;
  played.open(1);
  const DemandId patient = played.ask(1, 4000, seconds(5));
  EXPECT_TRUE(played.waits(patient));
  EXPECT_EQ(played.ledger.next_deadline(), played.now + milliseconds(100));
  played.pass(milliseconds(100));
  EXPECT_TRUE(played.waits(patient));
  played.pager.pinned_bytes = 1000 * mib;
  played.pass(milliseconds(100));
  EXPECT_TRUE(played.admitted(patient));
}

TEST(Ledger, RefusesAtTheDeadlineWithTheBytesThatArePinned) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.used_bytes = 8192 * mib;
  played.pager.pinned_bytes = 6000 * mib;
  played.open(1);
  const DemandId patient = played.ask(1, 4000, seconds(1));
  played.pass(milliseconds(999));
  EXPECT_TRUE(played.waits(patient));
  played.pass(milliseconds(1));
  ASSERT_TRUE(played.refused(patient));
  EXPECT_EQ(played.refused(patient)->failure.kind, FailureKind::pinned);
  EXPECT_NE(played.refused(patient)->failure.message.find("needs 4000 MiB, free 8192 MiB"),
            std::string::npos);
  EXPECT_NE(played.refused(patient)->failure.message.find("6000 MiB of pages are pinned"), std::string::npos);
  EXPECT_EQ(played.pager.budget_bytes, 8192 * mib);  // What was set aside is given back.
  EXPECT_EQ(played.ledger.next_deadline(), std::nullopt);
}

TEST(Ledger, RefusesWithRevokeTimeoutWhenClientsDoNotAnswer) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.used_bytes = 8192 * mib;
  played.pager.stuck_bytes = 6000 * mib;
  played.open(1);
  const DemandId demand = played.ask(1, 4000, seconds(0));
  ASSERT_TRUE(played.refused(demand));
  EXPECT_EQ(played.refused(demand)->failure.kind, FailureKind::revoke_timeout);
}

TEST(Ledger, GivesThePagerAShortTimeEvenWhenNobodyMayWait) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.pager.silent = true;
  played.open(1);
  const DemandId hasty = played.ask(1, 1000, seconds(0));
  EXPECT_TRUE(played.waits(hasty));
  played.pass(milliseconds(199));
  EXPECT_TRUE(played.waits(hasty));
  played.pass(milliseconds(1));
  ASSERT_TRUE(played.refused(hasty));
  EXPECT_EQ(played.refused(hasty)->failure.kind, FailureKind::deadline);
  EXPECT_EQ(played.booked_mib(), 0u);
}

TEST(Ledger, CutsDeadlinesThatWouldNeverCome) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  played.ask(1, 8192);
  const DemandId demand = played.ask(2, 1, never - played.now);
  EXPECT_TRUE(played.waits(demand));
  played.pass(std::chrono::minutes(10));
  EXPECT_TRUE(played.refused(demand));
}

TEST(Ledger, ServesInTheOrderOfDemandsEvenIfALaterOneWouldFit) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  for (std::uint32_t number = 1; number <= 3; ++number) played.open(number);
  const DemandId first = played.ask(1, 8000);
  const DemandId large = played.ask(2, 5000);
  const DemandId small = played.ask(3, 100);
  EXPECT_TRUE(played.waits(large));
  EXPECT_TRUE(played.waits(small));
  played.release(1, played.admitted(first)->grant);
  EXPECT_TRUE(played.admitted(large));
  EXPECT_TRUE(played.admitted(small));
  EXPECT_LT(raw(played.admitted(large)->grant), raw(played.admitted(small)->grant));
}

TEST(Ledger, ADemandBehindTheFirstIsRefusedAtItsOwnDeadline) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  for (std::uint32_t number = 1; number <= 3; ++number) played.open(number);
  played.ask(1, 8000);
  const DemandId large = played.ask(2, 5000, seconds(60));
  const DemandId small = played.ask(3, 100, seconds(1));
  played.pass(seconds(1));
  EXPECT_TRUE(played.waits(large));
  ASSERT_TRUE(played.refused(small));
  EXPECT_EQ(played.refused(small)->failure.kind, FailureKind::deadline);
  EXPECT_NE(played.refused(small)->failure.message.find("1 demands are ahead"), std::string::npos);
  EXPECT_EQ(played.refused(small)->waited, seconds(1));
}

TEST(Ledger, ADemandIsCancelledWithoutAnAnswerAndGivesWay) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  for (std::uint32_t number = 1; number <= 3; ++number) played.open(number);
  played.ask(1, 4000);
  const DemandId large = played.ask(2, 5000);
  const DemandId small = played.ask(3, 100);
  played.step(ledger::Cancel{.demand = large});
  EXPECT_TRUE(played.waits(large));
  EXPECT_TRUE(played.admitted(small));
  played.step(ledger::Cancel{.demand = large});
  played.step(ledger::Cancel{.demand = small});  // Too late: it has been answered.
  EXPECT_EQ(played.ledger.figures().admissions.cancelled, 1u);
  EXPECT_EQ(played.booked_mib(), 4100u);
}

TEST(Ledger, NothingIsGrantedBeyondARoomThatHasShrunk) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  const DemandId first = played.ask(1, 4000);
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .foreign_bytes = 6000 * mib});
  EXPECT_EQ(played.ledger.figures().free_bytes, 0u);
  EXPECT_EQ(played.pager.budget_bytes, 0u);
  const DemandId second = played.ask(2, 4000, seconds(1));
  played.pass(seconds(1));
  ASSERT_TRUE(played.refused(second));
  EXPECT_EQ(played.refused(second)->failure.kind, FailureKind::foreign_usage);
  played.release(1, played.admitted(first)->grant);
  EXPECT_EQ(played.ledger.figures().free_bytes, 2192 * mib);
}

TEST(Ledger, CountsDecisionsAndWaits) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  const DemandId first = played.ask(1, 8000);
  const DemandId second = played.ask(2, 8000, seconds(60));
  played.pass(milliseconds(100));
  played.release(1, played.admitted(first)->grant);
  EXPECT_EQ(played.admitted(second)->waited, milliseconds(100));
  played.ask(1, 9000);
  const AdmissionCounts counts = played.ledger.figures().admissions;
  EXPECT_EQ(counts.admitted_full, 2u);
  EXPECT_EQ(counts.queued, 1u);
  EXPECT_EQ(counts.refused[static_cast<std::size_t>(FailureKind::never_fits)], 1u);
  EXPECT_EQ(counts.wait.counts[0], 2u);
  EXPECT_EQ(counts.wait.counts[7], 1u);  // 64 ms <= 100 ms < 128 ms
  EXPECT_EQ(counts.wait.sum_ns, 100'000'000u);
}

}  // namespace
}  // namespace penstock
