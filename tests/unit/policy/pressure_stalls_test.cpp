// SPDX-License-Identifier: Apache-2.0
// What the policy of pressure takes for stalls: the service's own, those of an ancestor, of the machine.
#include <gtest/gtest.h>

#include "tests/unit/policy/played_node.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::capacity;
using test::PlayedNode;

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

// Kubernetes limits the parent of all pods: the ancestor of a pod without a limit holds the others' pods as well.
TEST(PressurePolicy, IgnoresTheStallsOfAnAncestorWhileThereIsRoomBelowItsLimit) {
  PlayedNode node;
  node.sample.frame_bytes = 1 * gib;
  const auto wait_above = [&](std::int64_t total) {
    node.sample.above = node.waited(seconds(total), seconds(total));
    ++node.sample.bounds_passed_above;
  };
  wait_above(0);
  node.look();
  for (int total = 2; total <= 20; total += 2) {
    node.sample.at += seconds(2);
    wait_above(total);
    EXPECT_EQ(node.look().level, PressureLevel::calm);
    EXPECT_EQ(node.policy.answer().frames_bytes, capacity);
  }
  node.others = 2 * gib;  // Room 1 GiB: more than the high line, less than twice of it.
  node.sample.at += seconds(2);
  node.sample.above = node.waited(seconds(22), seconds(20));
  EXPECT_EQ(node.look().level, PressureLevel::some);
  EXPECT_EQ(node.policy.answer().frames_bytes, capacity - capacity / 16);
  ++node.sample.bounds_passed_above;
  EXPECT_EQ(node.look().frames_bytes, capacity - 2 * capacity / 16);
}

TEST(PressurePolicy, CountsItsOwnStallsBesideThoseOfAnAncestor) {
  PlayedNode node;
  node.sample.own = node.sample.above = node.waited({}, {});
  node.look();
  node.sample.at += seconds(2);
  node.sample.above = node.waited({}, {});
  node.sample.own = node.waited(seconds(1), {});
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

}  // namespace
}  // namespace penstock
