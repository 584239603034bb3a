// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dataplane/writer/restart_policy.hpp"

namespace penstock {
namespace {

constexpr RestartPolicyOptions options{.deaths_max = 5, .window_ticks = 100, .back_off_ticks = 3};

TEST(RestartPolicy, ReplacesTheFirstAtOnceAndWaitsTwiceAsLongEachTime) {
  RestartPolicy policy(options);
  EXPECT_EQ(policy.died(10), 0u);
  EXPECT_EQ(policy.died(11), 3u);
  EXPECT_EQ(policy.died(15), 6u);
  EXPECT_EQ(policy.died(22), 12u);
}

TEST(RestartPolicy, GivesUpAtTheFifthDeathWithinTheWindow) {
  RestartPolicy policy(options);
  for (std::uint64_t death = 0; death < 4; ++death) EXPECT_TRUE(policy.died(death).has_value());
  EXPECT_FALSE(policy.died(99).has_value());
}

TEST(RestartPolicy, ForgetsDeathsThatLieOutsideTheWindow) {
  RestartPolicy policy(options);
  for (std::uint64_t death = 0; death < 4; ++death) EXPECT_TRUE(policy.died(death).has_value());
  EXPECT_EQ(policy.died(103), 0u);
}

TEST(RestartPolicy, StartsOverOnceForgiven) {
  RestartPolicy policy(options);
  for (std::uint64_t death = 0; death < 5; ++death) static_cast<void>(policy.died(death));
  policy.forgive();
  EXPECT_EQ(policy.died(6), 0u);
}

}  // namespace
}  // namespace penstock
