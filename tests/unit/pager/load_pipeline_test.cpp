// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/safetensors_file.hpp"
#include "tests/unit/pager/load_rig.hpp"

namespace penstock::test {
namespace {

constexpr TableId table{7};
constexpr std::uint64_t frame = 64 * 1024;

TEST(LoadPipeline, FillsEachPageWithTheBytesOfTheFile) {
  LoadRig rig;
  const std::uint64_t bytes = 3 * frame + 12'345;
  rig.pipeline->open(table, rig.identity(bytes));
  std::vector<FrameId> frames;
  for (std::uint32_t page = 0; page < 4; ++page) frames.push_back(rig.load(table, page));
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 4u);
  for (std::uint32_t page = 0; page < 4; ++page) {
    EXPECT_EQ(rig.content(frames[page]), expected_bytes(page * frame, frame, bytes)) << "page " << page;
  }
  EXPECT_TRUE(rig.pipeline->idle());
}

TEST(LoadPipeline, LeavesNothingBehindTheEndOfTheFile) {
  LoadRig rig;
  const std::uint64_t bytes = frame + 12'345;  // No multiple of any granule.
  rig.pipeline->open(table, rig.identity(bytes));
  rig.reader->scribble_behind_ends();
  const FrameId filled = rig.load(table, 1);
  EXPECT_TRUE(rig.loaded_one_well());
  EXPECT_EQ(rig.content(filled), expected_bytes(frame, frame, bytes));
}

TEST(LoadPipeline, ReadsStraightIntoAnAddressableFrame) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(2 * frame));
  rig.load(table, 0);
  EXPECT_TRUE(rig.loaded_one_well());
  EXPECT_EQ(rig.device.copies(), 0u);
}

TEST(LoadPipeline, FillsAFrameThroughSlotsWhereItHasNoAddress) {
  LoadRig rig({.device = {.addressable = false}});
  const std::uint64_t bytes = frame + 999;
  rig.pipeline->open(table, rig.identity(bytes));
  const FrameId first = rig.load(table, 0), second = rig.load(table, 1);
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 2u);
  EXPECT_GE(rig.device.copies(), 5u);
  EXPECT_EQ(rig.content(first), expected_bytes(0, frame, bytes));
  EXPECT_EQ(rig.content(second), expected_bytes(frame, frame, bytes));
  EXPECT_EQ(rig.pipeline->ring().free_slots(), rig.pipeline->ring().slots());
}

TEST(LoadPipeline, GivesASlotBackOnlyAfterItsFence) {
  LoadRig rig({.device = {.addressable = false}});
  rig.pipeline->open(table, rig.identity(frame));
  rig.device.hold_fences();
  rig.load(table, 0);
  rig.settle();
  EXPECT_TRUE(rig.take_loaded().empty());
  EXPECT_EQ(rig.pipeline->ring().free_slots(), 4u);  // Four of 16 KiB are copied from.
  EXPECT_EQ(rig.pipeline->waits_for(), "a copy into device memory");
  rig.device.release_fences();
  EXPECT_TRUE(rig.loaded_one_well());
  EXPECT_EQ(rig.pipeline->ring().free_slots(), 8u);
}

TEST(LoadPipeline, GoesOnWhenTheWritersQueueWasFull) {
  LoadRig rig({.device = {.addressable = false, .copies_max = 1}});
  rig.pipeline->open(table, rig.identity(frame));
  rig.device.hold_fences();
  const FrameId filled = rig.load(table, 0);
  rig.settle();
  EXPECT_EQ(rig.device.copies(), 1u);
  rig.device.release_fences();
  EXPECT_TRUE(rig.loaded_one_well());
  EXPECT_EQ(rig.content(filled), expected_bytes(0, frame, frame));
}

TEST(LoadPipeline, FailsThePageWhoseReadFailsAndNoOther) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(2 * frame));
  rig.reader->answer_next(-EIO);
  rig.load(table, 0);
  rig.settle();
  std::vector<Loaded> loaded = rig.take_loaded();
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_FALSE(loaded[0].ok);
  EXPECT_EQ(loaded[0].reason, FailureKind::io_error);
  EXPECT_NE(rig.pipeline->failure_of(table).find("EIO"), std::string::npos)
      << rig.pipeline->failure_of(table);
  rig.load(table, 1);
  EXPECT_TRUE(rig.loaded_one_well());
}

TEST(LoadPipeline, AnswersAFailedPageOnlyWhenItsOtherReadsHaveEnded) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(frame));
  rig.reader->ignore_cancels();
  rig.reader->hold();
  rig.reader->answer_next(-EIO);
  rig.load(table, 0);
  rig.settle();
  rig.reader->step();
  rig.settle();
  EXPECT_TRUE(rig.take_loaded().empty());
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 1u);
}

TEST(LoadPipeline, AnswersACancelledLoadOnceItsReadsHaveEnded) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(2 * frame));
  rig.reader->ignore_cancels();
  rig.reader->hold();
  rig.load(table, 0);
  rig.settle();
  rig.pipeline->cancel({.page = {.table = table, .index = 0}, .generation = Generation{1}});
  rig.settle();
  EXPECT_TRUE(rig.take_loaded().empty());
  EXPECT_TRUE(rig.pipeline->busy(table));
  rig.reader->release();
  rig.settle();
  const std::vector<Loaded> loaded = rig.take_loaded();
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_FALSE(loaded[0].ok);
  EXPECT_EQ(loaded[0].reason, FailureKind::cancelled);
  EXPECT_FALSE(rig.pipeline->busy(table));
}

TEST(LoadPipeline, IgnoresTheCancelOfAnotherGeneration) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(frame));
  rig.load(table, 0, Urgency::bulk, Generation{2});
  rig.pipeline->cancel({.page = {.table = table, .index = 0}, .generation = Generation{1}});
  EXPECT_TRUE(rig.loaded_one_well());
}

TEST(LoadPipeline, StartsAPageThatSomebodyWaitsForBeforeBulkPages) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(16 * frame));
  rig.reader->hold();
  for (std::uint32_t page = 0; page < 15; ++page) rig.load(table, page);
  rig.settle();
  const std::size_t before = rig.reader->history().size();
  EXPECT_LT(before, 15 * 4u);  // Not all bulk pages are under way.
  rig.load(table, 15, Urgency::fault);
  rig.settle();
  ASSERT_GE(rig.reader->history().size(), before + 4);
  for (std::size_t read = before; read < before + 4; ++read) {
    EXPECT_GE(rig.reader->history()[read].extent.offset, 15 * frame);
  }
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 16u);
}

TEST(LoadPipeline, KeepsSlotsFreeForPagesThatSomebodyWaitsFor) {
  LoadRig rig({.device = {.addressable = false}});
  rig.pipeline->open(table, rig.identity(8 * frame));
  rig.reader->hold();
  for (std::uint32_t page = 0; page < 7; ++page) rig.load(table, page);
  rig.settle();
  EXPECT_EQ(rig.pipeline->ring().free_slots(), 2u);
  rig.load(table, 7, Urgency::fault);
  rig.settle();
  EXPECT_EQ(rig.pipeline->ring().free_slots(), 0u);
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 8u);
}

TEST(LoadPipeline, MovesABulkPageForwardWhenSomebodyStartsToWaitForIt) {
  LoadRig rig;
  rig.pipeline->open(table, rig.identity(8 * frame));
  rig.reader->hold();
  for (std::uint32_t page = 0; page < 7; ++page) rig.load(table, page);
  const FrameId last = rig.load(table, 7);
  rig.settle();
  const std::size_t before = rig.reader->history().size();
  rig.pipeline->load({.page = {.table = table, .index = 7},
                      .generation = Generation{1},
                      .frame = last,
                      .urgency = Urgency::fault});
  rig.settle();
  ASSERT_GT(rig.reader->history().size(), before);
  EXPECT_GE(rig.reader->history()[before].extent.offset, 7 * frame);
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 8u);
}

TEST(LoadPipeline, SaysWhichReadItWaitsFor) {
  LoadRig rig;
  const auto source = rig.identity(frame);
  rig.pipeline->open(table, source);
  EXPECT_EQ(rig.pipeline->waits_for(), "");
  rig.reader->hold();
  rig.load(table, 0);
  rig.settle();
  EXPECT_EQ(rig.pipeline->waits_for(),
            "a read of 16384 bytes at 0 of checkpoint " + source->files[0]->identity().id());
  rig.reader->release();
  rig.settle();
}

TEST(LoadPipeline, FailsWhatItWasFillingWhenTheWriterIsGone) {
  LoadRig rig({.device = {.addressable = false}});
  rig.pipeline->open(table, rig.identity(2 * frame));
  rig.checked.hold_fences();
  rig.load(table, 0);
  rig.settle();
  rig.checked.lose_writer();
  rig.pipeline->writer_lost();
  rig.settle();
  const std::vector<Loaded> loaded = rig.take_loaded();
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded[0].reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.pipeline->ring().free_slots(), 8u);
}

TEST(LoadPipeline, FailsAReadThatWasPartlyCopiedWhenTheWriterIsGone) {
  LoadRig rig({.device = {.addressable = false, .copies_max = 2}});
  // Eight small tensors share the slot of one read; the queue takes two copies.
  std::vector<TensorEntry> tensors;
  for (std::uint64_t at = 100; at < 8 * 500; at += 500) {
    tensors.push_back({.name = std::to_string(at), .dtype = Dtype::u8, .shape = {500}, .extent = {at, 500}});
  }
  const CheckpointIndex index("safetensors", 4'100, 100, tensors, {});
  rig.pipeline->open(table,
                     std::make_shared<const TableSource>(TableSource{
                         .layout = PageLayout::scattered(index, 4096, frame), .files = {rig.file(4'100)}}));
  rig.device.hold_fences();
  rig.load(table, 0);
  rig.settle();
  EXPECT_EQ(rig.device.copies(), 2u);
  rig.checked.hold_fences();
  rig.device.release_fences();
  rig.checked.lose_writer();
  rig.pipeline->writer_lost();
  rig.settle();
  EXPECT_EQ(rig.take_loaded().size(), 1u);
  EXPECT_EQ(rig.pipeline->ring().free_slots(), 8u);
}

TEST(LoadPipeline, LeavesHolesOfALayoutZero) {
  LoadRig rig;
  // Three tensors of odd sizes, each aligned to 4096 in the table; the file has no gaps.
  std::vector<TensorEntry> tensors;
  std::uint64_t offset = 100;
  for (const std::uint64_t bytes : {std::uint64_t{1'001}, std::uint64_t{30'000}, std::uint64_t{20'001}}) {
    tensors.push_back(
        {.name = std::to_string(bytes), .dtype = Dtype::u8, .shape = {bytes}, .extent = {offset, bytes}});
    offset += bytes;
  }
  const CheckpointIndex index("safetensors", offset, 100, tensors, {});
  rig.pipeline->open(table,
                     std::make_shared<const TableSource>(TableSource{
                         .layout = PageLayout::scattered(index, 4096, frame), .files = {rig.file(offset)}}));
  const FrameId filled = rig.load(table, 0);
  EXPECT_TRUE(rig.loaded_one_well());
  std::vector<std::byte> expected(frame);
  std::uint64_t place = 0;
  for (const TensorEntry& tensor : tensors) {
    for (std::uint64_t at = 0; at < tensor.extent.length; ++at)
      expected[place + at] = patterned(tensor.extent.offset + at);
    place = (place + tensor.extent.length + 4095) / 4096 * 4096;
  }
  EXPECT_EQ(rig.content(filled), expected);
}

class LoadPipelineOfAChangedFile : public ::testing::Test {
 protected:
  // Loads one page, changes the file when its reads are done and not told yet, and returns what became of it.
  Loaded load_while(const std::function<void(const std::string& path)>& change) {
    rig.pipeline->open(table, rig.identity(2 * frame));
    rig.reader->hold();
    rig.load(table, 0);
    rig.settle();
    change(rig.folder / "weights");
    rig.reader->release();
    rig.settle();
    const std::vector<Loaded> loaded = rig.take_loaded();
    EXPECT_EQ(loaded.size(), 1u);
    return loaded.at(0);
  }
  LoadRig rig;
};

TEST_F(LoadPipelineOfAChangedFile, PublishesNothingOfAFileThatWasWrittenMeanwhile) {
  const Loaded loaded = load_while([](const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(file.get(), "x", 1, frame), 1);
  });
  EXPECT_FALSE(loaded.ok);
  EXPECT_EQ(loaded.reason, FailureKind::changed_while_read);
}

TEST_F(LoadPipelineOfAChangedFile, TellsByHowMuchAFileShrank) {
  const Loaded loaded =
      load_while([](const std::string& path) { ASSERT_EQ(::truncate(path.c_str(), 1000), 0); });
  EXPECT_EQ(loaded.reason, FailureKind::changed_while_read);
  EXPECT_NE(rig.pipeline->failure_of(table).find("131072"), std::string::npos)
      << rig.pipeline->failure_of(table);
}

TEST_F(LoadPipelineOfAChangedFile, KeepsTheContentOfAFileThatWasReplaced) {
  const Loaded loaded = load_while([](const std::string& path) { ASSERT_EQ(::unlink(path.c_str()), 0); });
  EXPECT_TRUE(loaded.ok);
}

}  // namespace
}  // namespace penstock::test
