// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_report.hpp"

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

class UsageReportTest : public testing::Test {
 protected:
  UsageReportTest() {
    snapshot_.state = UsageState::current;
    snapshot_.age = 3s;
    snapshot_.devices.resize(1);
    snapshot_.devices[0].uuid = gpu_.uuid = {7};
    snapshot_.devices[0].total_bytes = 1000;
    snapshot_.devices[0].used_bytes = 600;
    snapshot_.devices[0].knows_processes = true;
  }
  GpuUsageStats report(const std::optional<HostMemory>& host = std::nullopt) const {
    return report_usage(snapshot_, gpu_, {.frame_bytes = 200}, host);
  }

  UsageSnapshot snapshot_;
  GpuIdentity gpu_;
};

TEST_F(UsageReportTest, TellsFiguresAndTheirAge) {
  const GpuUsageStats stats = report();
  EXPECT_EQ(stats.state, "current");
  EXPECT_EQ(stats.age, 3s);
  EXPECT_EQ(stats.foreign_bytes, 400u);
  EXPECT_EQ(stats.free_bytes, 400u);
  EXPECT_EQ(stats.ghost_bytes, 400u);
}

TEST_F(UsageReportTest, FramesThatCameWhileItWasReadMakeARange) {
  snapshot_.devices[0].frames = FrameBytes{100, 300};
  const GpuUsageStats stats = report();
  EXPECT_EQ(stats.foreign_bytes, 500u);
  EXPECT_EQ(stats.foreign_bytes_least, 300u);
  EXPECT_EQ(stats.ghost_bytes, 300u);
}

TEST_F(UsageReportTest, AStalledSourceLeavesOldFiguresAndSaysSo) {
  snapshot_.state = UsageState::stalled;
  snapshot_.age = 1h;
  const GpuUsageStats stats = report();
  EXPECT_EQ(stats.state, "stalled");
  EXPECT_EQ(stats.age, 1h);
  EXPECT_EQ(stats.foreign_bytes, 400u);
}

TEST_F(UsageReportTest, WhatIsNotKnownHasNoFigure) {
  snapshot_.devices[0].health = UsageHealth::lost;
  EXPECT_EQ(report().state, "lost");
  EXPECT_FALSE(report().foreign_bytes);
  snapshot_.devices[0].health = UsageHealth::unreadable;
  EXPECT_EQ(report().state, "unreadable");
  gpu_.uuid = {8};
  gpu_.pci.bus = 9;
  EXPECT_EQ(report().state, "unknown");
  EXPECT_FALSE(report().total_bytes);
  snapshot_.state = UsageState::absent;
  EXPECT_EQ(report().state, "absent");
}

TEST_F(UsageReportTest, AGpuThatSharesTheMachinesMemoryIsBudgetedOnIt) {
  snapshot_.devices.clear();
  const GpuUsageStats stats = report(HostMemory{.total_bytes = 5000, .available_bytes = 3000});
  EXPECT_TRUE(stats.shares_host_memory);
  EXPECT_EQ(stats.total_bytes, 5000u);
  EXPECT_EQ(stats.foreign_bytes, 1800u);
  EXPECT_EQ(stats.free_bytes, 3000u);
  EXPECT_EQ(stats.ghost_bytes, std::nullopt);
  EXPECT_EQ(stats.age, 0s);
}

}  // namespace
}  // namespace penstock::test
