// SPDX-License-Identifier: Apache-2.0
// Pipelines of GPUs with one pinned host tier between them.
#include <algorithm>
#include <atomic>
#include <cerrno>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/drive_device.hpp"
#include "tests/support/fixed_headroom.hpp"
#include "tests/unit/pager/load_rig.hpp"

namespace penstock::test {
namespace {

constexpr TableId table{7};
constexpr std::uint64_t frame = 64 * 1024;
constexpr std::uint64_t tier_page = 32 * 1024;
constexpr std::uint64_t file_bytes = 3 * frame + 12'345;  // Seven tier pages.

class Tiered : public testing::Test {
 protected:
  explicit Tiered(std::uint64_t pages = 16) {
    auto made = HostTier::make({.page_bytes = tier_page,
                                .capacity_bytes = 16 * tier_page,
                                .budget_bytes = pages * tier_page,
                                .pages = HostPages::small},
                               headroom_);
    CHECK(made.has_value());
    tier = *std::move(made);
    first.emplace(options());
    second.emplace(options());
    source = first->identity(file_bytes);
    tier->announce(source->files.front()->identity());
    first->pipeline->open(table, source);
    second->pipeline->open(table, source);
  }
  LoadRigOptions options() const { return {.device = {.addressable = false}, .tier = tier}; }

  // Loads all pages and checks their bytes.
  void load_all(LoadRig& rig, std::uint64_t generation = 1) {
    std::vector<FrameId> frames;
    for (std::uint32_t page = 0; page < 4; ++page)
      frames.push_back(rig.load(table, page, Urgency::bulk, Generation{generation}));
    rig.settle();
    std::size_t ok = 0;
    for (const Loaded& loaded : rig.take_loaded()) ok += loaded.ok;
    EXPECT_EQ(ok, 4u) << rig.pipeline->failure_of(table);
    for (std::uint32_t page = 0; page < 4; ++page)
      EXPECT_EQ(rig.content(frames[page]), expected_bytes(page * frame, frame, file_bytes))
          << "page " << page;
  }
  // Both pipelines let go of what the tier wants back.
  void expect_used(std::uint64_t bytes) {
    first->settle();
    second->settle();
    EXPECT_TRUE(tier->wait_until_at_most(bytes, std::chrono::seconds(5))) << tier->stats().used_bytes;
    EXPECT_EQ(tier->stats().used_bytes, bytes);
  }

  FixedHeadroom headroom_;
  std::shared_ptr<HostTier> tier;
  std::optional<LoadRig> first, second;
  std::shared_ptr<const TableSource> source;
};

// A cgroup with a limit, in which the tier is all that takes memory; keeps the most that it had.
class LimitedRoom final : public HeadroomSource {
 public:
  explicit LimitedRoom(std::uint64_t bytes) : limit_(bytes) {}
  std::uint64_t headroom_bytes() override {
    return limit_ - static_cast<std::uint64_t>(
                        std::clamp<std::int64_t>(taken_.load(), 0, static_cast<std::int64_t>(limit_)));
  }
  std::uint64_t limit_bytes() override { return limit_; }
  void account(std::int64_t bytes) override {
    const std::int64_t now = taken_ += bytes;
    most_ = std::max(most_.load(), now);  // The maker's thread alone takes.
  }
  std::int64_t taken() const { return taken_; }
  std::int64_t most() const { return most_; }

 private:
  const std::uint64_t limit_;
  std::atomic<std::int64_t> taken_ = 0, most_ = 0;
};

// Two GPUs that load the same two files over one tier. Returns the most memory that the tier
// has had at any time.
std::int64_t most_of_two_gpus(LimitedRoom& room, std::uint64_t budget, std::uint64_t reserve) {
  auto made = HostTier::make({.page_bytes = tier_page,
                              .capacity_bytes = 32 * tier_page,
                              .budget_bytes = budget,
                              .reserve_bytes = reserve,
                              .pages = HostPages::small},
                             room);
  CHECK(made.has_value());
  const std::shared_ptr<HostTier> tier = *std::move(made);
  const LoadRigOptions options{.device = {.addressable = false}, .tier = tier};
  LoadRig first(options), second(options);
  const auto shared = first.identity(file_bytes);
  const auto other = second.identity(2 * frame);
  for (const auto& source : {shared, other}) tier->announce(source->files.front()->identity());
  std::uint32_t number = 10;
  for (const auto& source : {shared, other, shared}) {
    const TableId id{++number};
    for (LoadRig* rig : {&first, &second}) rig->pipeline->open(id, source);
    for (std::uint32_t page = 0; page < 2; ++page) {
      for (LoadRig* rig : {&first, &second}) rig->load(id, page);
      for (LoadRig* rig : {&first, &second, &first}) rig->settle();
    }
    for (LoadRig* rig : {&first, &second}) {
      for (const Loaded& loaded : rig->take_loaded()) EXPECT_TRUE(loaded.ok);
      rig->pipeline->close(id);
    }
    EXPECT_EQ(room.taken(), static_cast<std::int64_t>(tier->stats().used_bytes));
  }
  return room.most();
}

TEST(TierOfTwoGpus, OneBudgetIsForBothAndOneCopyServesThem) {
  LimitedRoom room(1 * gib);
  // Eight tier pages in all: of each the two read two frames' worth.
  EXPECT_EQ(most_of_two_gpus(room, 32 * tier_page, 0), static_cast<std::int64_t>(8 * tier_page));
  for (const std::uint64_t pages : {0, 1, 3, 5}) {
    LimitedRoom again(1 * gib);
    EXPECT_LE(most_of_two_gpus(again, pages * tier_page, 0), static_cast<std::int64_t>(pages * tier_page));
  }
}

TEST(TierOfTwoGpus, WhatTheCgroupLeavesBindsBothWhateverTheBudgetIs) {
  for (const std::uint64_t pages : {0, 1, 3, 5}) {
    LimitedRoom room((pages + 2) * tier_page);
    const std::int64_t most = most_of_two_gpus(room, 32 * tier_page, 2 * tier_page);
    EXPECT_EQ(most, static_cast<std::int64_t>(pages * tier_page));
  }
}

TEST_F(Tiered, APageThatWasLoadedOnceIsLoadedAgainWithoutARead) {
  load_all(*first);
  const std::size_t reads = first->reader->history().size();
  EXPECT_EQ(tier->stats().held_bytes, 7 * tier_page);
  EXPECT_EQ(tier->bytes_of(source->files.front()->identity()), file_bytes);
  EXPECT_EQ(tier->stats().hits, 0u);
  load_all(*first, 2);
  EXPECT_EQ(first->reader->history().size(), reads);
  EXPECT_EQ(tier->stats().hit_bytes, file_bytes);
  EXPECT_EQ(first->pipeline->reads_of(table).tier_bytes, file_bytes);
  EXPECT_EQ(tier->stats().miss_bytes, file_bytes);
}

TEST_F(Tiered, TwoGpusReadAFileOnce) {
  load_all(*first);
  load_all(*second);
  EXPECT_TRUE(second->reader->history().empty());
  EXPECT_EQ(tier->stats().used_bytes, 7 * tier_page);
}

TEST_F(Tiered, OneGpuWaitsForWhatTheOtherReads) {
  first->reader->hold();
  const FrameId here = first->load(table, 0), there = second->load(table, 0);
  first->settle();
  second->settle();
  EXPECT_TRUE(second->reader->history().empty());
  EXPECT_TRUE(second->take_loaded().empty());
  first->reader->release();
  EXPECT_TRUE(first->loaded_one_well());
  EXPECT_TRUE(second->loaded_one_well());
  EXPECT_TRUE(second->reader->history().empty());
  EXPECT_EQ(first->content(here), second->content(there));
}

TEST_F(Tiered, WhoWaitedReadsForItselfWhenTheOtherFails) {
  first->reader->hold();
  first->load(table, 0);
  const FrameId there = second->load(table, 0);
  first->settle();
  second->settle();
  first->pipeline->cancel_all();
  first->reader->release();
  first->settle();
  EXPECT_FALSE(first->take_loaded().front().ok);
  EXPECT_TRUE(second->loaded_one_well());
  EXPECT_EQ(second->content(there), expected_bytes(0, frame, file_bytes));
}

TEST_F(Tiered, ABudgetSmallerThanTheFileHoldsItsBeginning) {
  tier->set_budget(3 * tier_page);
  load_all(*first);
  const std::uint64_t reads = first->pipeline->counters().cached_bytes;
  load_all(*first, 2);
  EXPECT_EQ(first->pipeline->counters().cached_bytes, 2 * reads - 3 * tier_page);
  expect_used(3 * tier_page);
}

TEST_F(Tiered, ABudgetThatFallsIsObeyedWhenTheCopiesHaveEnded) {
  first->device.hold_fences();
  first->load(table, 0);
  first->settle();
  tier->set_budget(0);
  first->settle();
  EXPECT_EQ(tier->stats().used_bytes, 2 * tier_page) << "they are copied from";
  first->device.release_fences();
  EXPECT_TRUE(first->loaded_one_well());
  expect_used(0);
  load_all(*second);
  EXPECT_GT(tier->take_dropped().size(), 0u);
}

TEST_F(Tiered, AWriterThatIsGoneKeepsNothing) {
  first->checked.hold_fences();
  first->load(table, 0);
  first->settle();
  first->checked.lose_writer();
  first->pipeline->writer_lost();
  first->settle();
  EXPECT_FALSE(first->take_loaded().front().ok);
  tier->set_budget(0);
  expect_used(0);
}

TEST_F(Tiered, AReadThatFailsFailsThePageAndIsTriedAgainNextTime) {
  first->reader->answer_next(-EIO);
  first->load(table, 0);
  first->settle();
  const std::vector<Loaded> loaded = first->take_loaded();
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded.front().reason, FailureKind::io_error);
  EXPECT_TRUE(first->pipeline->idle());
  load_all(*first, 2);
}

TEST_F(Tiered, ACancelledLoadLeavesItsBytesInTheTier) {
  first->reader->hold();
  first->load(table, 0);
  first->settle();
  first->pipeline->cancel({.page = {.table = table, .index = 0}, .generation = Generation{1}});
  first->settle();
  ASSERT_EQ(first->take_loaded().size(), 1u);
  EXPECT_TRUE(first->pipeline->busy(table)) << "it is still read for";
  first->reader->release();
  first->settle();
  EXPECT_FALSE(first->pipeline->busy(table));
  EXPECT_EQ(tier->stats().held_bytes, 2 * tier_page);
}

TEST_F(Tiered, AChangedFileIsNeitherFilledNorServed) {
  load_all(*first);
  const std::string path = first->folder.path() / "weights";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::pwrite(fd, "changed", 7, 0), 7);
  ASSERT_EQ(::close(fd), 0);
  first->load(table, 0, Urgency::bulk, Generation{2});
  first->settle();
  const std::vector<Loaded> loaded = first->take_loaded();
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded.front().reason, FailureKind::changed_while_read);
  expect_used(0);
}

TEST_F(Tiered, AForgottenFileLeaves) {
  load_all(*first);
  tier->forget(source->files.front()->identity());
  expect_used(0);
  const std::vector<HostTier::Dropped> dropped = tier->take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped.front().bytes, 7 * tier_page);
  EXPECT_EQ(dropped.front().checkpoint, source->files.front()->identity().id());
  load_all(*first, 2);
  expect_used(0);
}

TEST_F(Tiered, APageThatWasFoundCorruptIsReadFromItsFile) {
  load_all(*first);
  const std::size_t reads = first->reader->history().size();
  first->pipeline->distrust({.table = table, .index = 0});
  EXPECT_EQ(tier->stats().held_bytes, 5 * tier_page);
  const FrameId again = first->load(table, 0, Urgency::fault, Generation{2});
  EXPECT_TRUE(first->loaded_one_well());
  EXPECT_GT(first->reader->history().size(), reads);
  EXPECT_EQ(first->content(again), expected_bytes(0, frame, file_bytes));
}

TEST_F(Tiered, WithoutHeadroomLoadsGoOnThroughSlots) {
  headroom_.change_by(-static_cast<std::int64_t>(headroom_.headroom_bytes()));
  load_all(*first);
  EXPECT_EQ(tier->stats().used_bytes, 0u);
  EXPECT_GT(tier->stats().refused_frames, 0u);
  EXPECT_EQ(first->pipeline->ring().free_slots(), first->pipeline->ring().slots());
}

TEST_F(Tiered, AClosedTableCountsNoMoreAsResident) {
  load_all(*first);
  for (std::uint32_t page = 0; page < 4; ++page) first->pipeline->note_residency({table, page}, true);
  first->pipeline->close(table);
  EXPECT_FALSE(first->pipeline->busy(table));
  load_all(*second);
}

}  // namespace
}  // namespace penstock::test
