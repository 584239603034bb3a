// SPDX-License-Identifier: Apache-2.0
// The policy of pressure against a node that is played.
#include "service/policy/pressure.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/random.hpp"
#include "tests/unit/policy/played_node.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::capacity;
using test::PlayedNode;
using test::Random;

TEST(PressurePolicy, IsCalmAndLeavesEverythingWhileThereIsRoom) {
  PlayedNode node;
  for (int i = 0; i < 100; ++i) {
    const PressureAnswer& answer = node.pass(milliseconds(250));
    EXPECT_EQ(answer.level, PressureLevel::calm);
    EXPECT_EQ(answer.frames_bytes, capacity);
    EXPECT_EQ(answer.buffers_bytes, gib);
    EXPECT_TRUE(answer.make_ahead);
    EXPECT_FALSE(answer.drop_page_cache);
  }
}

TEST(PressurePolicy, FallsInOneStepByAllThatIsMissing) {
  PlayedNode node;
  node.look();
  node.others = 1 * gib + 600 * mib;  // Room 424 MiB.
  const PressureAnswer& answer = node.look();
  EXPECT_EQ(answer.level, PressureLevel::some);
  EXPECT_EQ(answer.reason, PressureReason::room);
  EXPECT_EQ(answer.frames_bytes, capacity - (768 - 424) * mib);
  EXPECT_FALSE(answer.make_ahead);
  EXPECT_TRUE(answer.drop_page_cache);
}

TEST(PressurePolicy, BelievesASecondLookAtALimitThatDidNotBindBefore) {
  PlayedNode node;
  const PressureAnswer calm = node.look();
  const auto look_at = [&](std::uint64_t source, std::uint64_t others) {
    node.sample.limit_source = source;
    node.others = others;
    return node.look();
  };
  constexpr std::uint64_t taken = gib + 600 * mib;
  // On the way through another cgroup, twice, with a look between.
  for (int i = 0; i < 2; ++i) {
    const PressureAnswer on_the_way = look_at(7, taken);
    EXPECT_TRUE(on_the_way.look_again);
    EXPECT_EQ(on_the_way.level, PressureLevel::calm);
    EXPECT_EQ(on_the_way.frames_bytes, capacity);
    EXPECT_EQ(on_the_way.buffers_bytes, calm.buffers_bytes);
    EXPECT_TRUE(on_the_way.make_ahead);
    EXPECT_FALSE(look_at(0, 0).look_again);
  }
  look_at(7, taken);
  const PressureAnswer there = look_at(7, taken);
  EXPECT_FALSE(there.look_again);
  EXPECT_EQ(there.reason, PressureReason::room);
  EXPECT_LT(there.frames_bytes, capacity);
}

TEST(PressurePolicy, FallsAlsoWhereTwoLimitsTakeTurns) {
  PlayedNode node;
  node.look();
  node.others = gib + 600 * mib;
  for (std::uint64_t source = 1; source <= 2; ++source) {
    node.sample.limit_source = source;
    node.look();
  }
  EXPECT_LT(node.policy.answer().frames_bytes, capacity);
  // One that bound with room to spare is known.
  PlayedNode known;
  known.look();
  known.sample.limit_source = 1;
  known.look();
  known.others = gib + 600 * mib;
  EXPECT_LT(known.look().frames_bytes, capacity);
}

TEST(PressurePolicy, AsksForNoMoreWhileFramesAreOnTheirWayOut) {
  PlayedNode node;
  node.speed = 100 * mib;  // They take seconds to go.
  node.look();
  node.others = 1 * gib + 700 * mib;
  const std::uint64_t first = node.look().frames_bytes;
  for (int i = 0; i < 400; ++i) EXPECT_EQ(node.pass(milliseconds(5)).frames_bytes, first);
}

TEST(PressurePolicy, IsFullBelowHalfOfTheLowLineAndCalmsDownOneLevelAtATime) {
  PlayedNode node;
  node.look();
  node.others = 2 * gib - 200 * mib;
  EXPECT_EQ(node.look().level, PressureLevel::full);
  node.others = 0;
  node.sample.frame_bytes = 0;
  std::vector<PressureLevel> levels;
  for (int i = 0; i < 12; ++i) levels.push_back(node.pass(milliseconds(250)).level);
  EXPECT_EQ(levels.front(), PressureLevel::full);
  EXPECT_EQ(std::ranges::count(levels, PressureLevel::some), 4);
  EXPECT_EQ(levels.back(), PressureLevel::calm);
}

TEST(PressurePolicy, RisesSlowlyAfterAPauseAndOnlyAsFarAsThereIsRoom) {
  PlayedNode node;
  node.look();
  node.others = 2 * gib;
  for (int i = 0; i < 200; ++i) node.pass(milliseconds(5));
  ASSERT_EQ(node.room(), node.policy.answer().high_bytes);
  const Nanoseconds fell = node.sample.at;
  const std::uint64_t bottom = node.policy.answer().frames_bytes;
  node.others = 1 * gib;
  std::uint64_t before = bottom;
  while (node.sample.at < fell + seconds(30)) {
    const std::uint64_t now = node.pass(milliseconds(250)).frames_bytes;
    if (node.sample.at < fell + seconds(1)) {
      EXPECT_EQ(now, bottom);
    }
    EXPECT_GE(now, before);
    EXPECT_LE(now - before, capacity / 10);
    before = now;
  }
  EXPECT_EQ(before, capacity);
  EXPECT_EQ(node.policy.answer().level, PressureLevel::calm);
}

// Others take what leaves too little, and stay: one fall, then rest.
TEST(PressurePolicy, DoesNotSwingAroundABound) {
  for (std::uint64_t others = 1200 * mib; others < 4000 * mib; others += 37 * mib) {
    PlayedNode node;
    node.look();
    for (int i = 0; i < 2000; ++i) {
      node.others = std::min(others, node.others + 5 * mib);  // 1 GiB a second.
      node.pass(milliseconds(5));
    }
    for (int i = 0; i < 400; ++i) node.pass(milliseconds(250));
    EXPECT_LE(node.turns(), 1) << others;
  }
}

// The others' use goes up and down by more than lies between the lines, for ever: falls get rare.
TEST(PressurePolicy, FallsEverMoreRarelyWhenWhatItGivesIsTakenAgainAndAgain) {
  PlayedNode node;
  node.look();
  for (int second = 0; second < 600; ++second) {
    node.others = second % 10 < 5 ? 2200 * mib : 1500 * mib;
    for (int i = 0; i < 20; ++i) node.pass(milliseconds(50));
  }
  // Sixty swings of the others.
  EXPECT_LE(node.turns(), 24);
  EXPECT_GE(node.turns(), 2);
}

TEST(PressurePolicy, KeepsWhatIsPinnedAndSaysWhatClientsHoldOfWhatIsMissing) {
  PlayedNode node;
  node.sample.kept_bytes = 1900 * mib;
  node.look();
  node.others = 2 * gib - 100 * mib;  // Room 100 MiB, 668 are missing, 148 can be evicted.
  const PressureAnswer& answer = node.look();
  EXPECT_EQ(answer.frames_bytes, 1900 * mib);
  EXPECT_EQ(answer.excess_bytes, 520 * mib);
}

TEST(PressurePolicy, TakesLockedCopiesBeforePages) {
  PlayedNode node({.frames_max_bytes = capacity, .copies_max_bytes = 512 * mib});
  node.sample.copy_bytes = 300 * mib;
  node.look();
  node.others = 1 * gib + 300 * mib;  // Room 424 MiB: 344 are missing.
  const PressureAnswer& answer = node.look();
  EXPECT_EQ(answer.copies_bytes, 0u);
  EXPECT_EQ(answer.frames_bytes, capacity - 44 * mib);
}

TEST(PressurePolicy, LeavesBuffersTheirBytesAndNothingBeyondTheRoom) {
  PlayedNode node;
  node.sample.frame_bytes = 0;
  node.sample.buffer_bytes = 700 * mib;
  node.look();
  node.others = 4 * gib - 1600 * mib;  // Room 900 MiB.
  EXPECT_EQ(node.look().buffers_bytes, (700 + 132) * mib);
  node.others = 4 * gib - 800 * mib;
  EXPECT_EQ(node.look().buffers_bytes, 700 * mib);
}

TEST(PressurePolicy, HoldsItsInvariantsInAnyHistory) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    PlayedNode node({.frames_max_bytes = random.below(3) * gib,
                     .copies_max_bytes = random.below(2) * gib,
                     .buffers_max_bytes = random.below(2) * gib,
                     .ahead_bytes = random.below(200) * mib});
    node.sample.frame_bytes = 0;
    StallTotals waited;
    for (int i = 0; i < 300; ++i) {
      node.others = random.below(5) * gib / (1 + random.below(4));
      node.speed = random.between(1, 4096) * mib;
      node.sample.kept_bytes = random.below(node.sample.frame_bytes + 100 * mib);
      node.sample.buffer_bytes = random.below(2) * random.below(1500) * mib;
      node.sample.bounds_passed += random.one_in(20);
      node.sample.bounds_passed_above += random.one_in(20);
      waited.some += milliseconds(random.below(30));
      waited.full += milliseconds(random.below(10));
      node.sample.own = node.waited(waited.some, waited.full);
      const std::uint64_t before = node.policy.answer().frames_bytes;
      const Nanoseconds span = milliseconds(random.between(1, 500));
      const PressureAnswer& answer = node.pass(span);
      // P2, but for what is pinned.
      const std::uint64_t kept = std::min(node.sample.kept_bytes, node.policy.options().frames_max_bytes);
      if (answer.frames_bytes > std::max(before, kept)) {
        EXPECT_EQ(answer.reason, PressureReason::recovered);
        EXPECT_EQ(answer.level, PressureLevel::calm);
      }
    }
  }
}

}  // namespace
}  // namespace penstock
