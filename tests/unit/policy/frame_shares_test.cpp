// SPDX-License-Identifier: Apache-2.0
#include "service/policy/frame_shares.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "tests/support/random.hpp"

namespace penstock {
namespace {

using Amounts = std::vector<std::uint64_t>;

Amounts allowed(std::uint64_t budget, std::vector<FrameShare> devices) {
  share_frames(budget, devices);
  Amounts found;
  for (const FrameShare& one : devices) found.push_back(one.allowed_bytes);
  return found;
}

TEST(FrameShares, OneDeviceHasTheWholeBudget) {
  for (const std::uint64_t budget : {0u, 10u, 60u, 100u}) {
    EXPECT_EQ(allowed(budget, {{.capacity_bytes = 100, .frame_bytes = 60}}), Amounts{budget});
  }
}

TEST(FrameShares, EachKeepsWhatItUsesAndWhatIsLeftIsSharedByWhatMayCome) {
  EXPECT_EQ(allowed(90, {{.capacity_bytes = 100, .frame_bytes = 60}, {.capacity_bytes = 40}}),
            (Amounts{75, 15}));
}

TEST(FrameShares, WhoUsesNothingGivesAllBeforeOthersGiveWhatTheyUse) {
  const std::vector<FrameShare> devices = {{.capacity_bytes = 100, .frame_bytes = 60},
                                           {.capacity_bytes = 100}};
  EXPECT_EQ(allowed(60, devices), (Amounts{60, 0}));
  EXPECT_EQ(allowed(40, devices), (Amounts{40, 0}));
}

TEST(FrameShares, EachGivesOfWhatIsNotKeptInTheSameProportion) {
  EXPECT_EQ(allowed(60, {{.capacity_bytes = 100, .frame_bytes = 60, .kept_bytes = 20},
                         {.capacity_bytes = 100, .frame_bytes = 40}}),
            (Amounts{40, 20}));
}

TEST(FrameShares, AddUpToTheBudgetAndTakeNothingThatIsKept) {
  test::Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<FrameShare> devices(random.between(1, 4));
    std::uint64_t most = 0, least = 0;
    for (FrameShare& one : devices) {
      one.capacity_bytes = random.below(128) * gib;
      one.frame_bytes = random.below(130 * gib);
      one.kept_bytes = random.below(2) * random.below(130 * gib);
      most += one.capacity_bytes;
      least += std::min(one.kept_bytes, one.capacity_bytes);
    }
    const std::uint64_t budget = random.below(most + gib);
    share_frames(budget, devices);
    std::uint64_t sum = 0;
    for (const FrameShare& one : devices) {
      EXPECT_LE(one.allowed_bytes, one.capacity_bytes);
      EXPECT_GE(one.allowed_bytes, std::min(one.kept_bytes, one.capacity_bytes));
      sum += one.allowed_bytes;
    }
    EXPECT_EQ(sum, std::clamp(budget, least, most));
  }
}

}  // namespace
}  // namespace penstock
