// SPDX-License-Identifier: Apache-2.0
// Which turns the figures are of: whoever has an answer can tell when they show what it was about.
#include <gtest/gtest.h>

#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

class PagerFigures : public ::testing::Test {
 protected:
  // Says something for which the next turns have an answer, and returns the newest turn that the client knows of then.
  std::uint64_t answered(const PeerMessage& message) {
    std::uint64_t turn = 0;
    client->on_sent([&] {
      turn = rig.stats.newest_turn();
      EXPECT_FALSE(rig.stats.are_of(turn)) << "they are of a turn that has not ended";
    });
    client->say(message);
    const SessionId session{1};
    for (int round = 0; round < 30 && turn == 0; ++round) {
      rig.advance(std::chrono::microseconds(10));
      rig.pager->turn(rig.now, {.readable = {&session, 1}});
    }
    client->on_sent({});
    EXPECT_GT(turn, 0u);
    return turn;
  }

  PagerRig rig;
  ScriptedPort* client = rig.start(4 * frame);
};

TEST_F(PagerFigures, AreOfTheTurnThatAnsweredOnceItHasEnded) {
  const std::uint64_t turn = answered(PeerPrefetch{.request = 1, .table = 1, .first = 0, .count = 2});
  EXPECT_TRUE(rig.stats.are_of(turn));
  EXPECT_EQ(rig.stats.resident_bytes.load(), 2 * frame);
}

TEST_F(PagerFigures, AreDueAtOnceAfterFaultsWereSettled) {
  answered(PeerPrefetch{.request = 1, .table = 1, .first = 0, .count = 3});
  const std::uint64_t turn = answered(PeerFault{.request = 2, .table = 1, .first = 0, .count = 3});
  ASSERT_TRUE(rig.pager->has_unsettled());
  EXPECT_FALSE(rig.stats.are_of(turn));
  rig.pager->settle(rig.now);
  // Whoever stops looking for more faults sleeps until then, and has a turn.
  ASSERT_TRUE(rig.pager->next_deadline().has_value());
  EXPECT_LE(*rig.pager->next_deadline(), rig.now);
  rig.pager->turn(rig.now, {.mail = false, .device = false, .reads = false});
  EXPECT_TRUE(rig.stats.are_of(turn));
  EXPECT_EQ(rig.stats.minor_faults.load(), 3u);
  EXPECT_GT(rig.pager->next_deadline().value_or(Nanoseconds::max()), rig.now);
}

TEST_F(PagerFigures, GrowOldWhileTurnsLeaveFaultsToSettle) {
  answered(PeerPrefetch{.request = 1, .table = 1, .first = 0, .count = 1});
  EXPECT_FALSE(rig.pager->figures_are_old(rig.now));
  rig.advance(PagerOptions{}.figures_lag_max);
  const std::uint64_t turn = answered(PeerFault{.request = 2, .table = 1, .first = 0, .count = 1});
  EXPECT_FALSE(rig.stats.are_of(turn));
  EXPECT_TRUE(rig.pager->figures_are_old(rig.now));
  rig.pager->publish();
  EXPECT_TRUE(rig.stats.are_of(turn));
  EXPECT_FALSE(rig.pager->figures_are_old(rig.now));
}

}  // namespace
}  // namespace penstock::test
