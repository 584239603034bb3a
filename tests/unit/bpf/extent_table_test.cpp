// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "bpf/extent_table.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t pages_of_16_mib = 4096;

TEST(ExtentTable, AFileGetsExtentsOf16MiBThatCoverItsLastPage) {
  ExtentTable table(100, 3);
  EXPECT_EQ(table.take(1), (ExtentRun{0, 1, 12}));
  EXPECT_EQ(table.take(pages_of_16_mib), (ExtentRun{1, 1, 12}));
  EXPECT_EQ(table.take(pages_of_16_mib + 1), (ExtentRun{2, 2, 12}));
}

TEST(ExtentTable, AnEmptyFileGetsOneSinceItMayGrow) {
  ExtentTable table(100, 1);
  EXPECT_EQ(table.take(0), (ExtentRun{0, 1, 12}));
}

TEST(ExtentTable, AHugeFileGetsLargerExtentsInsteadOfMore) {
  ExtentTable table(65536, 4096);
  const std::uint64_t pages = ExtentTable::run_max * pages_of_16_mib;
  EXPECT_EQ(table.take(pages), (ExtentRun{0, ExtentTable::run_max, 12}));
  EXPECT_EQ(table.take(pages + 1), (ExtentRun{ExtentTable::run_max, ExtentTable::run_max / 2 + 1, 13}));
}

TEST(ExtentTable, AnyNumberOfFilesHasExtentsTheLaterOnesLargerOnes) {
  constexpr std::uint32_t files = 4096;
  ExtentTable table(65536, files);
  std::vector<ExtentRun> runs;
  for (std::uint32_t i = 0; i < files; ++i) {
    const std::optional<ExtentRun> run = table.take(1024 * pages_of_16_mib);
    ASSERT_TRUE(run);
    EXPECT_GE(std::uint64_t{run->count} << run->shift, 1024 * pages_of_16_mib);
    EXPECT_LE(run->count, i > 0 ? runs.back().count : ExtentTable::run_max);
    runs.push_back(*run);
  }
  EXPECT_EQ(runs.front(), (ExtentRun{0, 1024, 12}));
  EXPECT_EQ(runs.back().count, 1u);
  EXPECT_FALSE(table.take(1));
  // In holes of any size, too.
  for (std::uint32_t i = 0; i < files; i += 2) table.give_back(runs[i]);
  for (std::uint32_t i = 0; i < files; i += 2) EXPECT_TRUE(table.take(1024 * pages_of_16_mib)) << i;
  EXPECT_FALSE(table.take(1));
}

TEST(ExtentTable, WhatWasGivenBackIsTakenAfterWhatWasFreeBefore) {
  ExtentTable table(3, 3);
  const ExtentRun first = *table.take(1);
  const ExtentRun second = *table.take(1);
  table.give_back(first);
  (void)second;
  EXPECT_EQ(table.take(1)->first, 2u);
  EXPECT_EQ(table.take(1)->first, 0u);
}

TEST(ExtentTable, NeighboursGrowTogetherInAnyOrder) {
  ExtentTable table(16, 4);
  std::vector<ExtentRun> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(*table.take(1));
  for (const std::size_t i : {0, 2, 3, 1}) table.give_back(runs[i]);
  EXPECT_EQ(table.free_places(), 16u);
  EXPECT_EQ(table.take(4 * pages_of_16_mib), (ExtentRun{0, 4, 12}));
}

}  // namespace
}  // namespace penstock
