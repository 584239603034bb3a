// SPDX-License-Identifier: Apache-2.0
// A file's counters, with the test in the place of the programs that count.
#include <array>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "bpf/tracked_file.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

class CountedFile : public testing::Test {
 protected:
  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t bytes = 40 * 1024 * 1024;  // Three extents.

  CountedFile() {
    const auto fd =
        std::make_shared<UniqueFd>(::open((folder_ / "empty").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const ResidencyQuery query = ResidencyQuery::choose(fd->get(), {.owns_files = true});
    file_ = std::make_unique<TrackedFile>(OwnedFd{fd->get(), fd}, query, bytes);
    files_[3].added = 99;  // Of the one that had the place before.
    extents_[5] = {7, 7, 8, 0};
    file_->count_at({files_.data(), extents_.data()}, 3, {4, 3, 12}, {}, {});
  }
  void add(std::size_t extent, std::int32_t pages) {
    files_[3].added += static_cast<std::uint64_t>(pages);
    extents_[4 + extent].added += static_cast<std::uint64_t>(pages);
  }
  void remove(RemovalCause cause, std::size_t extent, std::int32_t pages) {
    files_[3].removed[static_cast<std::size_t>(cause)] += static_cast<std::uint64_t>(pages);
    extents_[4 + extent].removed += static_cast<std::uint64_t>(pages);
  }
  void begin(std::uint64_t kernel_pages) {
    file_->begin([kernel_pages] { return std::optional(kernel_pages); });
  }
  // As long as it is asked for, pages come: `each` to an extent before each answer.
  TrackedFile::KernelPages busy_kernel(std::size_t extent, std::int32_t each) {
    return [this, extent, each] {
      add(extent, each);
      kernel_pages_ += static_cast<std::uint64_t>(each);
      return std::optional(kernel_pages_);
    };
  }
  TrackedFile::KernelPages resting_kernel() const {
    return [this] { return std::optional(kernel_pages_); };
  }
  std::size_t extents_known() const {
    std::size_t known = 0;
    for (std::size_t i = 0; i < file_->extents(); ++i) known += file_->extent(i).resident_bytes ? 1 : 0;
    return known;
  }
  std::uint64_t resident_pages() const {
    return file_->sample(ProbeLevel::traced).resident_bytes.value_or(UINT64_MAX) / page;
  }

  test::TemporaryFolder folder_;
  std::uint64_t kernel_pages_ = 0;  // Of busy_kernel().
  std::array<pst_file, 8> files_{};
  std::array<pst_extent, 16> extents_{};
  std::unique_ptr<TrackedFile> file_;
};

TEST_F(CountedFile, BeginsWithWhatTheKernelSaysAndNothingOfTheOneBefore) {
  begin(1000);
  EXPECT_EQ(resident_pages(), 1000u);
  const FileSample sample = file_->sample(ProbeLevel::traced);
  EXPECT_EQ(sample.traffic->added_bytes, 0u);
  EXPECT_EQ(sample.traffic->removed_bytes_in_all(), 0u);
  EXPECT_EQ(file_->extent(1).resident_bytes, 0u);
  EXPECT_EQ(file_->extent(1).reclaimed_bytes, 0u);
}

TEST_F(CountedFile, CountsUpAndDownInAllAndInEachExtent) {
  begin(0);
  add(0, 512);
  add(2, 16);
  remove(RemovalCause::memcg_limit, 0, 500);
  remove(RemovalCause::truncate, 2, 1);
  extents_[4].reclaimed = 500;
  EXPECT_EQ(resident_pages(), 27u);
  EXPECT_EQ(file_->extent(0).resident_bytes, 12 * page);
  EXPECT_EQ(file_->extent(0).reclaimed_bytes, 500 * page);
  EXPECT_EQ(file_->extent(1).resident_bytes, 0u);
  EXPECT_EQ(file_->extent(2).resident_bytes, 15 * page);
  EXPECT_EQ(file_->extent(0).traffic->added_bytes, 512 * page);
  EXPECT_EQ(file_->extent(0).traffic->removed_bytes, 500 * page);
  EXPECT_EQ(file_->extent(1).traffic->added_bytes, 0u);
  const FileTraffic traffic = *file_->sample(ProbeLevel::traced).traffic;
  EXPECT_EQ(traffic.added_bytes, 528 * page);
  EXPECT_EQ(traffic.removed_bytes[static_cast<std::size_t>(RemovalCause::memcg_limit)], 500 * page);
  EXPECT_EQ(traffic.removed_bytes_in_all(), 501 * page);
}

TEST_F(CountedFile, EventsBeforeTheBeginningAreNotCountedTwice) {
  add(0, 10);
  remove(RemovalCause::fadvise, 0, 3);
  begin(7);
  EXPECT_EQ(resident_pages(), 7u);
}

TEST_F(CountedFile, ADifferenceIsSetRightWhenItIsFoundTwice) {
  begin(100);
  EXPECT_FALSE(file_->reconcile(110));
  EXPECT_EQ(resident_pages(), 100u);
  EXPECT_TRUE(file_->reconcile(110));
  EXPECT_EQ(resident_pages(), 110u);
  EXPECT_FALSE(file_->reconcile(110));
}

TEST_F(CountedFile, ADifferenceThatChangesOrGoesWasAnEventUnderWay) {
  begin(100);
  EXPECT_FALSE(file_->reconcile(110));
  EXPECT_FALSE(file_->reconcile(105));
  EXPECT_FALSE(file_->reconcile(100));
  EXPECT_FALSE(file_->reconcile(105));
  EXPECT_EQ(resident_pages(), 100u);
}

TEST_F(CountedFile, MoreRemovedThanKnownIsNothingResidentUntilItIsSetRight) {
  begin(5);
  remove(RemovalCause::other, 0, 9);
  EXPECT_EQ(resident_pages(), 0u);
  EXPECT_FALSE(file_->reconcile(0));
  EXPECT_TRUE(file_->reconcile(0));
  add(0, 2);
  EXPECT_EQ(resident_pages(), 2u);
}

TEST_F(CountedFile, ExtentsOfAFileThatDoesNotRestAreAbsentUntilItDoes) {
  file_->begin(busy_kernel(1, 5));
  EXPECT_EQ(extents_known(), 0u);
  file_->settle_extents(busy_kernel(1, 5));
  EXPECT_EQ(extents_known(), 0u);
  file_->reconcile(kernel_pages_);
  file_->reconcile(kernel_pages_);
  EXPECT_EQ(resident_pages(), kernel_pages_);
  file_->settle_extents(resting_kernel());
  ASSERT_EQ(extents_known(), 3u);
  // The file itself, which the kernel is asked about, is empty.
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(file_->extent(i).resident_bytes, 0u);
  add(1, 7);
  EXPECT_EQ(file_->extent(1).resident_bytes, 7 * page);
}

TEST_F(CountedFile, WhatTheKernelHasAndIsNotCountedYetKeepsTheExtentsAbsent) {
  file_->begin(busy_kernel(1, 5));
  file_->reconcile(kernel_pages_);
  file_->reconcile(kernel_pages_);
  ++kernel_pages_;  // Its program has not run yet.
  file_->settle_extents(resting_kernel());
  EXPECT_EQ(extents_known(), 0u);
  add(1, 1);
  file_->settle_extents(resting_kernel());
  EXPECT_EQ(extents_known(), 3u);
}

TEST_F(CountedFile, ExtentsThatAreKnownAreNotAskedForAgain) {
  begin(0);
  add(2, 16);
  file_->settle_extents(busy_kernel(1, 5));
  EXPECT_EQ(kernel_pages_, 0u);
  EXPECT_EQ(file_->extent(2).resident_bytes, 16 * page);
}

TEST_F(CountedFile, WhereATotalIsSetRightSoAreItsExtents) {
  begin(0);
  add(0, 3);
  kernel_pages_ = 10;
  EXPECT_FALSE(file_->reconcile(10));
  EXPECT_TRUE(file_->reconcile(10));
  EXPECT_EQ(extents_known(), 0u);
  file_->settle_extents(resting_kernel());
  EXPECT_EQ(extents_known(), 3u);
}

TEST_F(CountedFile, FaultsAreAbsentWhereTheyAreNotTimed) {
  begin(0);
  files_[3].major_faults = 4;
  files_[3].major_fault_ns = 1000;
  EXPECT_FALSE(file_->sample(ProbeLevel::traced).faults);
  const std::optional<FaultTraffic> faults = file_->sample(ProbeLevel::traced_and_faults).faults;
  ASSERT_TRUE(faults);
  EXPECT_EQ(faults->major_faults, 4u);
  EXPECT_EQ(faults->stall_ns, 1000u);
}

}  // namespace
}  // namespace penstock
