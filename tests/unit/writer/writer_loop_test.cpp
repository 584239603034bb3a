// SPDX-License-Identifier: Apache-2.0
// The writer's loop over host memory, on a thread of the test, with the test in the place of the service.
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "tests/unit/writer/writer_loop_rig.hpp"

namespace penstock {
namespace {

TEST_F(WriterLoopTest, EndsWellWhenTheServiceHangsUp) {
  service_ = WriterChannel();
  EXPECT_TRUE(ended_.get().has_value());
}

TEST_F(WriterLoopTest, AFreshFrameIsZeroedAndAnOldOneIsNot) {
  const SharedMemory fresh(frame_bytes, std::byte{9}), old(frame_bytes, std::byte{9});
  map_fresh(FrameId{1}, fresh, 1);
  expect_reached(1);
  say({.op = WriterOp::map, .frame = FrameId{2}, .fence = FenceId{2}, .bytes = frame_bytes}, old.file.get());
  expect_reached(2);
  EXPECT_EQ(fresh.memory.bytes().front(), std::byte{0});
  EXPECT_EQ(fresh.memory.bytes().back(), std::byte{0});
  EXPECT_EQ(old.memory.bytes().front(), std::byte{9});
  say({.op = WriterOp::copy_frame, .frame = FrameId{1}, .from = FrameId{2}, .fence = FenceId{3}});
  expect_reached(3);
  EXPECT_EQ(fresh.memory.bytes().back(), std::byte{9});
}

TEST_F(WriterLoopTest, ChecksumsAreThoseOfTheReference) {
  const SharedMemory frame(frame_bytes), staging(2 * frame_bytes, std::byte{3});
  say({.op = WriterOp::stage, .bytes = 2 * frame_bytes}, staging.file.get());
  map_fresh(FrameId{1}, frame, 1);
  expect_reached(1);
  say({.op = WriterOp::copy, .frame = FrameId{1}, .fence = FenceId{2}, .offset = 100, .bytes = 5000});
  expect_reached(2);
  say({.op = WriterOp::checksum, .frame = FrameId{1}, .fence = FenceId{3}});
  const WriterAnswer sum = next();
  EXPECT_EQ(sum.kind, WriterAnswerKind::checksum);
  EXPECT_EQ(sum.value, checksum(frame.memory.bytes()));
  EXPECT_EQ(sum.fence, FenceId{3});
  expect_reached(3);
  EXPECT_EQ(frame.memory.bytes()[5099], std::byte{3});
  EXPECT_EQ(frame.memory.bytes()[5100], std::byte{0});
}

// Takes no sums.
class NoSums final : public HostFiller {
 public:
  explicit NoSums(Error error) : error_(error) {}
  std::optional<Result<std::uint64_t>> take_checksum(FenceId) override { return error_; }

 private:
  const Error error_;
};

class WriterLoopWithoutSums : public WriterLoopTest {
 protected:
  void SetUp() override {}
  void sum_with(Error error) {
    filler_ = std::make_unique<NoSums>(error);
    WriterLoopTest::SetUp();
    map_fresh(FrameId{1}, frame_, 1);
    expect_reached(1);
    say({.op = WriterOp::checksum, .frame = FrameId{1}, .fence = FenceId{2}});
  }
  const SharedMemory frame_{frame_bytes};
};

TEST_F(WriterLoopWithoutSums, ASumThatCantBeTakenIsSaidAndNothingElseHappens) {
  sum_with({Errc::exhausted, 2, "a driver"});
  const WriterAnswer answer = next();
  EXPECT_EQ(answer.kind, WriterAnswerKind::checksum);
  EXPECT_EQ(answer.not_taken, 1u);
  EXPECT_EQ(answer.native, 2);
  expect_reached(2);
  say({.op = WriterOp::ping});
  EXPECT_EQ(next().kind, WriterAnswerKind::pong);
}

TEST_F(WriterLoopWithoutSums, ALossBetweenItsFenceAndTheSumEndsTheWriter) {
  sum_with({Errc::device, 700, "a driver"});
  expect_end();
}

TEST_F(WriterLoopTest, AFrameThatCantBeMappedIsSaidAndMayBeUnmapped) {
  const SharedMemory sealed(frame_bytes), good(frame_bytes);
  ASSERT_TRUE(add_seals(sealed.file.get(), F_SEAL_FUTURE_WRITE));
  map_fresh(FrameId{1}, sealed, 1);
  const WriterAnswer refused = next();
  EXPECT_EQ(refused.kind, WriterAnswerKind::map_failed);
  EXPECT_EQ(refused.frame, FrameId{1});
  expect_reached(1);
  say({.op = WriterOp::checksum, .frame = FrameId{1}, .fence = FenceId{2}});
  EXPECT_EQ(next().not_taken, 1u);
  expect_reached(2);
  say({.op = WriterOp::unmap, .frame = FrameId{1}, .fence = FenceId{3}});
  expect_reached(3);
  map_fresh(FrameId{1}, good, 4);
  expect_reached(4);
}

// The service may have said all of it before it hears that the map failed.
TEST_F(WriterLoopTest, CopiesOfAFrameThatCouldNotBeMappedFailAndTheWriterLives) {
  const SharedMemory small(4096), good(frame_bytes), staging(frame_bytes);
  say({.op = WriterOp::stage, .bytes = frame_bytes}, staging.file.get());
  map_fresh(FrameId{1}, good, 1);
  expect_reached(1);
  say({.op = WriterOp::map, .frame = FrameId{2}, .fence = FenceId{2}, .bytes = frame_bytes},
      small.file.get());
  say({.op = WriterOp::copy_frame, .frame = FrameId{1}, .from = FrameId{2}, .fence = FenceId{3}});
  EXPECT_EQ(next().kind, WriterAnswerKind::map_failed);
  expect_reached(2);
  const WriterAnswer failed = next();
  EXPECT_EQ(failed.kind, WriterAnswerKind::copy_failed);
  EXPECT_EQ(failed.fence, FenceId{3});
  expect_reached(3);
  map_fresh(FrameId{3}, small, 4);
  say({.op = WriterOp::copy, .frame = FrameId{3}, .fence = FenceId{5}, .bytes = 100});
  EXPECT_EQ(next().kind, WriterAnswerKind::map_failed);
  expect_reached(4);
  EXPECT_EQ(next().kind, WriterAnswerKind::copy_failed);
  expect_reached(5);
  say({.op = WriterOp::unmap, .frame = FrameId{2}, .fence = FenceId{6}});
  expect_reached(6);
  say({.op = WriterOp::map, .frame = FrameId{2}, .fence = FenceId{7}, .bytes = frame_bytes},
      staging.file.get());
  expect_reached(7);
  say({.op = WriterOp::copy_frame, .frame = FrameId{1}, .from = FrameId{2}, .fence = FenceId{8}});
  expect_reached(8);
}

TEST_F(WriterLoopTest, PingsAreAnswered) {
  say({.op = WriterOp::ping});
  EXPECT_EQ(next().kind, WriterAnswerKind::pong);
}

TEST_F(WriterLoopTest, ACopyPastTheEndOfItsFrameEndsTheWriter) {
  const SharedMemory frame(frame_bytes), staging(frame_bytes);
  say({.op = WriterOp::stage, .bytes = frame_bytes}, staging.file.get());
  map_fresh(FrameId{1}, frame, 1);
  expect_reached(1);
  say({.op = WriterOp::copy, .frame = FrameId{1}, .fence = FenceId{2}, .offset = 1, .bytes = frame_bytes});
  expect_end();
}

TEST_F(WriterLoopTest, ASourceOutsideTheStagingMemoryEndsTheWriter) {
  const SharedMemory frame(frame_bytes), staging(frame_bytes);
  say({.op = WriterOp::stage, .bytes = frame_bytes}, staging.file.get());
  map_fresh(FrameId{1}, frame, 1);
  expect_reached(1);
  say({.op = WriterOp::copy,
       .frame = FrameId{1},
       .fence = FenceId{2},
       .source_offset = ~0ull - 10,
       .bytes = 100});
  expect_end();
}

TEST_F(WriterLoopTest, CopiesFromMoreMemoryUntilItIsDropped) {
  const SharedMemory frame(frame_bytes), staging(frame_bytes, std::byte{1}), more(8192, std::byte{7});
  offer(frame, staging, more, SourceId{5});
  say({.op = WriterOp::copy,
       .frame = FrameId{1},
       .fence = FenceId{3},
       .source_offset = 4096,
       .bytes = 4096,
       .source = SourceId{5}});
  expect_reached(3);
  EXPECT_EQ(frame.memory.bytes()[4095], std::byte{7});
  say({.op = WriterOp::drop_source, .fence = FenceId{4}, .source = SourceId{5}});
  expect_reached(4);
  say({.op = WriterOp::copy, .frame = FrameId{1}, .fence = FenceId{5}, .bytes = 1, .source = SourceId{5}});
  expect_end();
}

// Still reads what it was told to copy when it ends, as a GPU does that is waited for.
class LateCopies final : public HostFiller {
 public:
  explicit LateCopies(std::vector<std::byte>& seen) : seen_(seen) {}
  ~LateCopies() override {
    for (const auto source : sources_) seen_.push_back(source.back());
  }
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override {
    sources_.push_back(source);
    return HostFiller::copy(frame, offset, source, conversion);
  }

 private:
  std::vector<std::byte>& seen_;
  std::vector<std::span<const std::byte>> sources_;
};

class WriterLoopWithLateCopies : public WriterLoopTest {
 protected:
  void SetUp() override {
    filler_ = std::make_unique<LateCopies>(seen_);
    WriterLoopTest::SetUp();
  }
  std::vector<std::byte> seen_;
};

TEST_F(WriterLoopWithLateCopies, WhatIsQueuedWhenTheServiceHangsUpStillHasItsSources) {
  const SharedMemory frame(frame_bytes), staging(frame_bytes, std::byte{1}), more(8192, std::byte{7});
  offer(frame, staging, more, SourceId{5});
  say({.op = WriterOp::copy, .frame = FrameId{1}, .fence = FenceId{3}, .bytes = 4096});
  say({.op = WriterOp::copy, .frame = FrameId{1}, .fence = FenceId{4}, .bytes = 8192, .source = SourceId{5}});
  expect_reached(3);
  expect_reached(4);
  service_ = WriterChannel();
  EXPECT_TRUE(ended_.get().has_value());
  EXPECT_EQ(seen_, (std::vector{std::byte{1}, std::byte{7}}));
}

TEST_F(WriterLoopTest, ASourceThatIsAddedTwiceEndsTheWriter) {
  const SharedMemory more(4096);
  for (const std::uint64_t fence : {1u, 2u}) {
    say({.op = WriterOp::add_source, .fence = FenceId{fence}, .bytes = 4096, .source = SourceId{1}},
        more.file.get());
  }
  expect_reached(1);
  expect_end();
}

TEST_F(WriterLoopTest, AFrameThatIsOnlyReadTakesNoCopies) {
  const SharedMemory frame(frame_bytes), staging(frame_bytes);
  say({.op = WriterOp::stage, .bytes = frame_bytes}, staging.file.get());
  say({.op = WriterOp::map, .frame = FrameId{1}, .fence = FenceId{1}, .bytes = frame_bytes},
      frame.file.get());
  expect_reached(1);
  say({.op = WriterOp::copy, .frame = FrameId{1}, .fence = FenceId{2}, .bytes = 1});
  expect_end();
}

TEST_F(WriterLoopTest, AFileThatIsShorterThanItsFrameIsNotMapped) {
  const SharedMemory small(4096);
  map_fresh(FrameId{1}, small, 1);
  EXPECT_EQ(next().kind, WriterAnswerKind::map_failed);
}

TEST_F(WriterLoopTest, AnUnknownFrameEndsTheWriter) {
  say({.op = WriterOp::unmap, .frame = FrameId{7}, .fence = FenceId{1}});
  expect_end();
}

}  // namespace
}  // namespace penstock
