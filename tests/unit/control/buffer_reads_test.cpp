// SPDX-License-Identifier: Apache-2.0
#include "service/control/buffer_reads.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/io/pread_reader.hpp"
#include "tests/support/faulty_reader.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t slot_bytes = 64 * 1024;
constexpr std::uint64_t file_bytes = 10 * slot_bytes + 777;

// A buffer of a client's.
struct Buffer {
  UniqueFd fd;
  Mapping mapping;
};

class BufferReadsTest : public testing::Test {
 protected:
  void SetUp() override {
    content_ = test::random_bytes(file_bytes, 1);
    test::write_durably(path_, content_);
    file_ = *CheckpointFile::open(path_.string());
    auto fd = create_shrinkable_memfd("test", file_bytes + 4096);
    ASSERT_TRUE(fd);
    buffer_->fd = std::move(*fd);
    buffer_->mapping = *Mapping::shared(buffer_->fd.get(), file_bytes + 4096, Access::read_write);
    auto reader = std::make_unique<test::FaultyReader>(*PreadReader::open({.pread_threads = 2}));
    faulty_ = reader.get();
    read_with(std::move(reader));
  }

  void read_with(std::unique_ptr<FileReader> reader) {
    auto ring = PinnedRing::make({.slot_bytes = slot_bytes, .slots = 2, .reserved_huge_pages = false});
    auto stream = ReadStream::make(std::move(reader), {}, {.requests_max = BufferReads::parts_max});
    ASSERT_TRUE(ring && stream);
    reads_ = std::make_unique<BufferReads>(*std::move(ring), *std::move(stream),
                                           [this](std::uint64_t request, Outcome<void> outcome) {
                                             answers_.emplace_back(request, std::move(outcome));
                                           });
  }

  void start(std::uint64_t request, std::uint64_t file_offset, std::uint64_t bytes, std::uint64_t offset = 0,
             Nanoseconds deadline = Nanoseconds::max()) {
    reads_->start({.request = request,
                   .file = file_,
                   .file_offset = file_offset,
                   .bytes = bytes,
                   .place = {buffer_, buffer_->fd.get(), offset, buffer_->mapping.bytes().data() + offset},
                   .deadline = deadline});
  }

  void run(std::size_t answers) {
    const Nanoseconds limit = monotonic_now() + std::chrono::seconds(20);
    while (answers_.size() < answers && monotonic_now() < limit) {
      reads_->turn(monotonic_now());
      pollfd ready{.fd = reads_->event_fd(), .events = POLLIN, .revents = 0};
      if (answers_.size() < answers) ::poll(&ready, 1, 10);
    }
    ASSERT_EQ(answers_.size(), answers);
  }

  bool is_there(std::uint64_t file_offset, std::uint64_t bytes, std::uint64_t offset = 0) const {
    return std::memcmp(buffer_->mapping.bytes().data() + offset, content_.data() + file_offset, bytes) == 0;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "file";
  std::vector<std::byte> content_;
  std::shared_ptr<CheckpointFile> file_;
  std::shared_ptr<Buffer> buffer_ = std::make_shared<Buffer>();
  test::FaultyReader* faulty_ = nullptr;
  std::unique_ptr<BufferReads> reads_;
  std::vector<std::pair<std::uint64_t, Outcome<void>>> answers_;
};

TEST_F(BufferReadsTest, BytesOfAnyPlaceComeToAnyPlaceInShortReads) {
  faulty_->limit_results(20000);
  for (const bool cached : {true, false}) {
    cached ? test::bring_into_page_cache(path_) : test::drop_from_page_cache(path_);
    answers_.clear();
    std::memset(buffer_->mapping.bytes().data(), 0, file_bytes + 4096);
    start(1, 4095, 3 * slot_bytes, 17);
    start(2, file_bytes - 1, 1, 4 * slot_bytes);
    run(2);
    EXPECT_TRUE(answers_[0].second && answers_[1].second);
    EXPECT_TRUE(is_there(4095, 3 * slot_bytes, 17));
    EXPECT_TRUE(is_there(file_bytes - 1, 1, 4 * slot_bytes));
  }
}

TEST_F(BufferReadsTest, AReadThatFailsIsToldAndTheNextOneWorks) {
  faulty_->answer_next(-EIO);
  start(1, 0, file_bytes);
  run(1);
  ASSERT_FALSE(answers_[0].second);
  EXPECT_EQ(answers_[0].second.error().kind, FailureKind::io_error);
  start(2, 0, file_bytes);
  run(2);
  EXPECT_TRUE(answers_[1].second);
  EXPECT_TRUE(is_there(0, file_bytes));
}

TEST_F(BufferReadsTest, AFileThatEndsEarlyIsTruncated) {
  faulty_->end_at(3 * slot_bytes + 5);
  start(1, 0, file_bytes);
  run(1);
  ASSERT_FALSE(answers_[0].second);
  EXPECT_EQ(answers_[0].second.error().kind, FailureKind::truncated);
}

TEST_F(BufferReadsTest, ABufferThatWasCutFailsTheReadAndNothingElse) {
  read_with(*PreadReader::open({.pread_threads = 2}));  // The other one looks at what it reads to.
  ASSERT_TRUE(shrink(buffer_->fd.get(), 0));
  test::bring_into_page_cache(path_);
  start(1, 0, file_bytes);
  run(1);
  test::drop_from_page_cache(path_);
  start(2, 0, file_bytes);
  run(2);
  for (const auto& [request, outcome] : answers_) {
    ASSERT_FALSE(outcome) << request;
    EXPECT_EQ(outcome.error().kind, FailureKind::invalid_argument) << outcome.error().message;
  }
}

TEST_F(BufferReadsTest, WhatIsCancelledOrTooLateIsAnsweredOnceAndWritesNothingLater) {
  test::drop_from_page_cache(path_);
  start(1, 0, file_bytes);
  start(2, 0, file_bytes, 0, Nanoseconds(1));
  reads_->cancel(1);
  run(2);
  EXPECT_EQ(answers_[0].second.error().kind, FailureKind::cancelled);
  EXPECT_EQ(answers_[1].second.error().kind, FailureKind::deadline);
  std::memset(buffer_->mapping.bytes().data(), 7, file_bytes);
  reads_->stop();
  const Nanoseconds limit = monotonic_now() + std::chrono::seconds(20);
  while (!reads_->over() && monotonic_now() < limit) reads_->turn(monotonic_now());
  EXPECT_TRUE(reads_->over());
  EXPECT_EQ(answers_.size(), 2u);
  EXPECT_EQ(buffer_->mapping.bytes()[0], std::byte{7});
}

}  // namespace
}  // namespace penstock
