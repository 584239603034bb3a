// SPDX-License-Identifier: Apache-2.0
// The policy of pressure against a node that is played: frames go and come at some speed, others take what they take.
#include "service/policy/pressure.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "service/policy/amount.hpp"
#include "tests/support/random.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Random;

constexpr std::uint64_t limit = 4 * gib;  // Lines: low 512 MiB, high 768 MiB.
constexpr std::uint64_t capacity = 2 * gib;

struct PlayedNode {
  explicit PlayedNode(const PressureOptions& options = {.frames_max_bytes = capacity,
                                                        .buffers_max_bytes = gib})
      : policy(options) {}

  std::uint64_t room() const {
    return saturating_subtract(limit, others + sample.frame_bytes + sample.copy_bytes + sample.buffer_bytes);
  }

  // What was waited for so far, as it is read now.
  StallReading waited(Nanoseconds some, Nanoseconds full, std::uint64_t source = 0) const {
    return {.at = sample.at, .source = source, .totals = {.some = some, .full = full}};
  }
  // Looks, and lets frames follow their budget for `span`: clients always want more.
  const PressureAnswer& pass(Nanoseconds span) {
    sample.at += span;
    const PressureAnswer& answer = look();
    const std::uint64_t target = std::max(answer.frames_bytes, sample.kept_bytes);
    const auto most = static_cast<std::uint64_t>(span.count()) * speed / 1'000'000'000;
    if (sample.frame_bytes > target) {
      sample.frame_bytes -= std::min(most, sample.frame_bytes - target);
    } else {
      sample.frame_bytes += std::min({most, target - sample.frame_bytes, room()});
    }
    sample.copy_bytes = std::min(sample.copy_bytes, answer.copies_bytes);
    return answer;
  }
  const PressureAnswer& look() {
    sample.limit_bytes = limit;
    sample.room_bytes = room();
    const PressureAnswer& answer = policy.step(sample);
    policy.verify(sample);
    budgets.push_back(answer.frames_bytes);
    return answer;
  }
  // Those changes of the budget that go the other way than the one before.
  int turns() const {
    int turns = 0, way = 0;
    for (std::size_t i = 1; i < budgets.size(); ++i) {
      if (budgets[i] == budgets[i - 1]) continue;
      const int now = budgets[i] > budgets[i - 1] ? 1 : -1;
      turns += way != 0 && now != way;
      way = now;
    }
    return turns;
  }

  PressurePolicy policy;
  PressureSample sample{.at = seconds(1000), .frame_bytes = capacity};
  std::uint64_t others = 0;
  std::uint64_t speed = 2 * gib;  // A second, of frames that come or go.
  std::vector<std::uint64_t> budgets;
};

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

TEST(PressurePolicy, TakesAStepForEachTimeOfStallsInItsOwnCgroups) {
  PlayedNode node;
  node.sample.own = node.waited({}, {});
  node.look();
  node.sample.bounds_passed = 1;
  EXPECT_EQ(node.look().frames_bytes, capacity - capacity / 16);
  EXPECT_EQ(node.policy.answer().level, PressureLevel::some);
  EXPECT_EQ(node.look().frames_bytes, capacity - capacity / 16);
  node.sample.at += seconds(2);
  node.sample.frame_bytes = capacity - capacity / 16;
  node.sample.own = node.waited(seconds(1), milliseconds(500));
  EXPECT_EQ(node.look().level, PressureLevel::full);
  EXPECT_EQ(node.policy.answer().frames_bytes, capacity - 2 * capacity / 16);
}

TEST(PressurePolicy, LeavesWhatMayBeUsedAndIsNotButForTheStep) {
  PlayedNode node({.frames_max_bytes = capacity, .copies_max_bytes = 2 * gib});
  node.sample.frame_bytes = 40 * mib;
  node.look();
  for (std::uint64_t stalls = 1; stalls <= 3; ++stalls) {
    node.sample.bounds_passed = stalls;
    EXPECT_EQ(node.look().frames_bytes, capacity - stalls * 256 * mib);
    EXPECT_EQ(node.policy.answer().copies_bytes, 2 * gib - stalls * 256 * mib);
  }
}

// A node whose devices are GPUs: there are no frames that could fall.
TEST(PressurePolicy, TakesLockedCopiesForStallsWhereThereIsNothingElse) {
  PlayedNode node({.frames_max_bytes = 0, .copies_max_bytes = 2 * gib});
  node.sample.frame_bytes = 0;
  node.sample.copy_bytes = 2 * gib;
  node.look();
  for (std::uint64_t stalls = 1; stalls <= 3; ++stalls) {
    node.sample.bounds_passed = stalls;
    EXPECT_EQ(node.pass(milliseconds(5)).copies_bytes, 2 * gib - stalls * 128 * mib);
    EXPECT_EQ(node.policy.answer().reason, PressureReason::stall);
  }
}

TEST(PressurePolicy, TakesAStepForStallsByAllThatTheNodeMayHold) {
  PlayedNode node({.frames_max_bytes = 512 * mib, .copies_max_bytes = 2 * gib});
  node.sample.frame_bytes = 512 * mib;
  node.sample.copy_bytes = 100 * mib;
  node.look();
  node.sample.bounds_passed = 1;
  const PressureAnswer& answer = node.look();
  EXPECT_EQ(answer.copies_bytes, 0u);
  EXPECT_EQ(answer.frames_bytes, 512 * mib - 60 * mib);
}

TEST(PressurePolicy, IgnoresTheMachinesStallsWhileItHasRoom) {
  PlayedNode node;
  node.sample.frame_bytes = 1 * gib;
  node.sample.machine = node.waited({}, {});
  node.look();
  node.sample.at += seconds(2);
  node.sample.machine = node.waited(seconds(2), seconds(2));
  EXPECT_EQ(node.look().level, PressureLevel::calm);
  EXPECT_EQ(node.policy.answer().frames_bytes, capacity);
  node.others = 2 * gib;  // Room 1 GiB: more than the high line, less than twice of it.
  node.sample.at += seconds(2);
  node.sample.machine = node.waited(seconds(4), seconds(2));
  EXPECT_EQ(node.look().level, PressureLevel::some);
  EXPECT_EQ(node.policy.answer().frames_bytes, capacity - capacity / 16);
}

TEST(PressurePolicy, TakesNoTotalsOfAnotherCgroupForStalls) {
  PlayedNode node;
  const auto look_at = [&](const std::optional<StallReading>& own) {
    node.sample.own = own;
    return node.look().level;
  };
  for (const Nanoseconds total :
       {Nanoseconds(seconds(100)), Nanoseconds(seconds(3)), Nanoseconds(seconds(900))}) {
    node.sample.at += seconds(3);
    EXPECT_EQ(look_at(std::nullopt), PressureLevel::calm);
    node.sample.at += seconds(3);
    EXPECT_EQ(look_at(node.waited(total, total, 1)), PressureLevel::calm);
    node.sample.at += seconds(3);
    EXPECT_EQ(look_at(node.waited(2 * total, 2 * total, 2)), PressureLevel::calm);
  }
  EXPECT_EQ(node.policy.answer().frames_bytes, capacity);
  node.sample.at += seconds(2);
  EXPECT_EQ(look_at(node.waited(seconds(1801), seconds(1801), 2)), PressureLevel::full);
}

// A thread that reads them may be late: what was waited for meanwhile is of all that time.
TEST(PressurePolicy, TakesALateReadingForOneOfALongTime) {
  PlayedNode node;
  node.sample.own = node.waited({}, {});
  node.look();
  const StallReading late = *node.sample.own;
  for (int i = 0; i < 7; ++i) {
    node.sample.at += seconds(5);
    node.sample.own = late;
    EXPECT_EQ(node.look().level, PressureLevel::calm);
  }
  node.sample.own = node.waited(seconds(2), seconds(2));
  EXPECT_EQ(node.look().level, PressureLevel::calm);
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
