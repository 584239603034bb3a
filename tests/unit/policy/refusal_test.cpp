// SPDX-License-Identifier: Apache-2.0
// What is refused at once, with its kind and its numbers.
#include <gtest/gtest.h>

#include "tests/unit/policy/played_ledger.hpp"

namespace penstock {
namespace {

using test::PlayedLedger;
using test::seconds;

Failure failure_of(const PlayedLedger& played, DemandId demand) {
  const auto refused = played.refused(demand);
  return refused ? refused->failure : Failure{FailureKind::internal, "was not refused", ""};
}

TEST(LedgerRefusal, OfWhatCanNeverFit) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.room.headroom_bytes = 192 * mib;
  PlayedLedger played(options);
  played.open(1);
  Failure failure = failure_of(played, played.ask(1, 8193));
  EXPECT_EQ(failure.kind, FailureKind::never_fits);
  EXPECT_EQ(failure.message, "8193 MiB can never fit in 8192 MiB");
  failure = failure_of(played, played.ask(1, 8100));
  EXPECT_EQ(failure.kind, FailureKind::headroom);
  EXPECT_EQ(failure.message, "8100 MiB can never fit in 8192 MiB less a headroom of 192 MiB");
  EXPECT_TRUE(played.admitted(played.ask(1, 9000, seconds(0), 8000)));
}

TEST(LedgerRefusal, OfNumbersThatMakeNoSense) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  EXPECT_EQ(failure_of(played, played.ask(1, 0)).kind, FailureKind::invalid_argument);
  EXPECT_EQ(failure_of(played, played.ask(1, 10, seconds(0), 11)).kind, FailureKind::invalid_argument);
  EXPECT_EQ(failure_of(played, played.ask(2, 10)).kind, FailureKind::not_found);
  const DemandId huge{1000};
  played.step(ledger::Ask{.demand = huge,
                          .session = test::session(1),
                          .weights_bytes = UINT64_MAX,
                          .work_bytes = UINT64_MAX,
                          .minimum_work_bytes = 0,
                          .deadline = {}});
  EXPECT_EQ(failure_of(played, huge).kind, FailureKind::never_fits);
}

TEST(LedgerRefusal, OfMoreThanTheQuotaOfTheUser) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.per_user_bytes = 3000 * mib;
  PlayedLedger played(options);
  played.open(1, 1000);
  played.open(2, 1000);
  played.open(3, 1001);
  EXPECT_TRUE(played.admitted(played.ask(1, 2000)));
  const Failure failure = failure_of(played, played.ask(2, 2000));
  EXPECT_EQ(failure.kind, FailureKind::quota);
  EXPECT_EQ(failure.message, "needs 2000 MiB, the quota leaves 1000 MiB of 3000 MiB to user 1000");
  const DemandId rest = played.ask(2, 2000, seconds(0), 500);
  ASSERT_TRUE(played.admitted(rest));
  EXPECT_EQ(played.admitted(rest)->work_bytes, 1000 * mib);
  EXPECT_TRUE(played.admitted(played.ask(3, 3000)));
}

TEST(LedgerRefusal, OfADemandWhoseUserHasBookedTheQuotaMeanwhile) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.per_user_bytes = 6000 * mib;
  PlayedLedger played(options);
  played.open(1, 1000);
  played.open(2, 1001);
  played.open(3, 1001);
  const DemandId first = played.ask(1, 6000);
  const DemandId second = played.ask(2, 4000);
  const DemandId third = played.ask(3, 4000);
  EXPECT_TRUE(played.waits(second));
  EXPECT_TRUE(played.waits(third));
  played.release(1, played.admitted(first)->grant);
  EXPECT_TRUE(played.admitted(second));
  EXPECT_EQ(failure_of(played, third).kind, FailureKind::quota);
}

TEST(LedgerRefusal, SaysThatTheNodeIsShortOfMemory) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.step(ledger::RoomChanged{.capacity_bytes = 8192 * mib, .allowed_bytes = 1000 * mib});
  const Failure failure = failure_of(played, played.ask(1, 2000, seconds(0)));
  EXPECT_EQ(failure.kind, FailureKind::headroom);
  EXPECT_NE(failure.message.find("the node is short of memory"), std::string::npos) << failure.message;
}

TEST(LedgerRefusal, OfPagesWithoutDescriptors) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.frame_bytes = 8 * mib;
  options.frames_max = 100;
  PlayedLedger played(options);
  played.open(1);
  played.open(2);
  const Failure failure = failure_of(played, played.ask(1, 0, seconds(0), 0, 801));
  EXPECT_EQ(failure.kind, FailureKind::fd_limit);
  EXPECT_EQ(failure.message, "needs 101 descriptors for 801 MiB of pages, the service may hold 100");
  EXPECT_TRUE(played.admitted(played.ask(1, 0, seconds(0), 0, 400)));
  EXPECT_EQ(failure_of(played, played.ask(2, 0, seconds(0), 0, 401)).kind, FailureKind::fd_limit);
  EXPECT_TRUE(played.admitted(played.ask(2, 0, seconds(0), 0, 400)));
}

TEST(LedgerRefusal, OfEverythingWhileTheDeviceIsUnhealthy) {
  PlayedLedger played(PlayedLedger::of_mib(8192));
  played.open(1);
  played.open(2);
  const DemandId first = played.ask(1, 8000);
  const DemandId second = played.ask(2, 8000);
  played.step(ledger::HealthChanged{.healthy = false});
  EXPECT_EQ(failure_of(played, second).kind, FailureKind::device_unhealthy);
  EXPECT_EQ(failure_of(played, played.ask(2, 1)).kind, FailureKind::device_unhealthy);
  played.release(1, played.admitted(first)->grant);
  EXPECT_EQ(played.booked_mib(), 0u);
  played.step(ledger::HealthChanged{.healthy = true});
  EXPECT_TRUE(played.admitted(played.ask(2, 1)));
}

TEST(LedgerRefusal, OfMoreDemandsAndGrantsThanAreKept) {
  LedgerOptions options = PlayedLedger::of_mib(8192);
  options.waiting_max = 2;
  options.grants_per_session_max = 3;
  PlayedLedger played(options);
  played.open(1);
  played.open(2);
  played.ask(1, 8192);
  played.ask(2, 1);
  played.ask(2, 1);
  EXPECT_EQ(failure_of(played, played.ask(2, 1)).kind, FailureKind::busy);
  played.close(2);
  played.close(1);
  played.open(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(played.admitted(played.ask(3, 1)));
  EXPECT_EQ(failure_of(played, played.ask(3, 1)).kind, FailureKind::quota);
}

}  // namespace
}  // namespace penstock
