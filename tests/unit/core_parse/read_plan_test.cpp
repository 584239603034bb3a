// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/read_plan.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "tests/support/plan_check.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t page = 8 * mib;

ReadPlan plan_of(const PageLayout& layout, std::uint32_t index, std::uint64_t file_bytes,
                 const ReadLimits& limits, bool addressable) {
  ReadPlan plan;
  const std::uint64_t files[] = {file_bytes};
  plan_page(layout, index, files, limits, addressable, plan);
  EXPECT_EQ(test::broken_promise(layout, index, files, limits, addressable, plan), "");
  return plan;
}

TEST(ReadPlan, ReadsAWholePageOfAFileStraightIntoItsFrame) {
  const PageLayout layout = PageLayout::identity(20 * mib, page);
  const ReadPlan plan = plan_of(layout, 1, 20 * mib, {}, true);
  EXPECT_EQ(plan.reads.size(), 8u);
  EXPECT_TRUE(plan.copies.empty());
  EXPECT_EQ(plan.reads[0].extent, (Extent{8 * mib, mib}));
  EXPECT_EQ(plan.reads[7].frame_offset, 7 * mib);
}

TEST(ReadPlan, ReadsTheLastGranulePastTheFilesEnd) {
  const std::uint64_t bytes = 8 * mib + 100;
  const PageLayout layout = PageLayout::identity(bytes, page);
  const ReadPlan plan = plan_of(layout, 1, bytes, {}, true);
  ASSERT_EQ(plan.reads.size(), 1u);
  EXPECT_TRUE(plan.reads[0].into_frame);
  EXPECT_EQ(plan.reads[0].extent, (Extent{8 * mib, 512}));
  EXPECT_EQ(plan.reads[0].needed_bytes, 100u);
}

TEST(ReadPlan, CutsAPageIntoSlotsWhereTheFrameHasNoAddress) {
  const PageLayout layout = PageLayout::identity(20 * mib, page);
  const ReadPlan plan = plan_of(layout, 0, 20 * mib, {}, false);
  EXPECT_EQ(plan.reads.size(), 16u);
  EXPECT_EQ(plan.copies.size(), 16u);
  EXPECT_TRUE(std::ranges::all_of(plan.reads,
                                  [](const PlannedRead& read) { return read.extent.length == 512 * kib; }));
}

CheckpointIndex many_tensors(std::uint64_t count, std::uint64_t bytes) {
  std::vector<TensorEntry> tensors;
  for (std::uint64_t tensor = 0; tensor < count; ++tensor) {
    tensors.push_back({.name = std::to_string(tensor),
                       .shape = {bytes},
                       .extent = {152 + tensor * bytes, bytes},
                       .file = 0});
  }
  return CheckpointIndex("safetensors", 152 + count * bytes, 152, std::move(tensors), {});
}

TEST(ReadPlan, NeighbouringSmallTensorsShareASlot) {
  const CheckpointIndex index = many_tensors(10'000, 600);
  const PageLayout layout = PageLayout::scattered(index, 512, page);
  for (const bool addressable : {false, true}) {
    const ReadPlan plan = plan_of(layout, 0, index.file_bytes(), {}, addressable);
    EXPECT_LE(plan.reads.size(), 11u) << "of 4.9 MB in slots of 512 KiB";
    EXPECT_GE(plan.copies.size(), 8192u);
  }
}

TEST(ReadPlan, AdjoiningTensorsShareACopy) {
  const CheckpointIndex index = many_tensors(10'000, 512);
  const PageLayout layout = PageLayout::scattered(index, 512, page);
  const ReadPlan plan = plan_of(layout, 0, index.file_bytes(), {}, false);
  EXPECT_EQ(plan.copies.size(), plan.reads.size());
}

TEST(ReadPlan, ACopyNeverGoesOnIntoAConversionOrOutOfOne) {
  const std::uint64_t files[] = {4096};
  const auto piece = [](std::uint64_t at, Dtype stored, Dtype wanted) {
    return LayoutPiece{
        .table_offset = at, .table_bytes = 100, .source = {at, 100}, .stored = stored, .wanted = wanted};
  };
  const auto layout =
      PageLayout::assembled({piece(0, Dtype::f16, Dtype::bf16), piece(100, Dtype::u8, Dtype::u8),
                             piece(200, Dtype::bf16, Dtype::f16)},
                            files, page);
  ASSERT_TRUE(layout);
  EXPECT_EQ(plan_of(*layout, 0, 4096, {}, false).copies.size(), 3u);
}

TEST(ReadPlan, CachedReadsGoIntoTheFrameWhereverATensorStands) {
  const CheckpointIndex index = many_tensors(3, 300'001);
  const PageLayout layout = PageLayout::scattered(index, 64, page);
  const ReadLimits cached{.offset_granule = 1, .memory_granule = 1};
  const ReadPlan plan = plan_of(layout, 0, index.file_bytes(), cached, true);
  EXPECT_EQ(plan.reads.size(), 3u);
  EXPECT_TRUE(plan.copies.empty());
}

TEST(ReadPlan, PassesTheFilesEndOnlyWhereTheFrameHasRoom) {
  const std::uint64_t files[] = {64 * kib + 100, 4096};
  for (const std::uint64_t next :
       {std::uint64_t{64 * kib + 100}, std::uint64_t{64 * kib + 511}, std::uint64_t{64 * kib + 512}}) {
    const auto layout =
        PageLayout::assembled({{.table_offset = 0, .table_bytes = files[0], .source = {0, files[0]}},
                               {.table_offset = next, .table_bytes = 50, .source = {7, 50}, .file = 1}},
                              files, page);
    ASSERT_TRUE(layout);
    ReadPlan plan;
    plan_page(*layout, 0, files, {}, true, plan);
    EXPECT_EQ(test::broken_promise(*layout, 0, files, {}, true, plan), "") << next;
    EXPECT_EQ(plan.reads.size(), next < 64 * kib + 512 ? 3u : 2u) << next;
  }
}

TEST(ReadPlan, LeavesALargeGapBetweenTensorsUnread) {
  const std::uint64_t files[] = {100 * mib};
  std::vector<LayoutPiece> pieces;
  for (const std::uint64_t source : {std::uint64_t{0}, 10 * mib, 10 * mib + 2000, 90 * mib}) {
    pieces.push_back({.table_offset = 1024 * pieces.size(), .table_bytes = 1000, .source = {source, 1000}});
  }
  const auto layout = PageLayout::assembled(std::move(pieces), files, page);
  ASSERT_TRUE(layout);
  const ReadPlan plan = plan_of(*layout, 0, files[0], {}, false);
  EXPECT_EQ(plan.reads.size(), 3u);
}

TEST(ReadPlan, APageOfNothingNeedsNoReads) {
  const std::uint64_t files[] = {100};
  const auto layout = PageLayout::assembled(
      {{.table_offset = 3 * page, .table_bytes = 100, .source = {0, 100}}}, files, page);
  ASSERT_TRUE(layout);
  EXPECT_TRUE(plan_of(*layout, 1, 100, {}, true).reads.empty());
}

TEST(ReadPlan, ReadsATiedTensorForBothItsPlaces) {
  const std::uint64_t files[] = {4096};
  const auto layout = PageLayout::assembled({{.table_offset = 0, .table_bytes = 100, .source = {50, 100}},
                                             {.table_offset = 512, .table_bytes = 100, .source = {50, 100}}},
                                            files, page);
  ASSERT_TRUE(layout);
  const ReadPlan plan = plan_of(*layout, 0, 4096, {}, true);
  EXPECT_EQ(plan.reads.size(), 1u);
  EXPECT_EQ(plan.copies.size(), 2u);
}

}  // namespace
}  // namespace penstock
