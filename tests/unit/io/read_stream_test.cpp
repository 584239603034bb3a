// SPDX-License-Identifier: Apache-2.0
// The undisturbed stream: every request answered once, the right path, its own bookkeeping.
#include "dataplane/io/read_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "dataplane/base/units.hpp"
#include "tests/support/random_file.hpp"
#include "tests/unit/io/stream_under_test.hpp"

namespace penstock::test {
namespace {

class ReadStreamTest : public StreamTest {};

TEST_F(ReadStreamTest, AnswersEachRequestOnceWithItsBytes) {
  use(mib + 100);
  push_all();
  EXPECT_EQ(stream_->unanswered(), 17u);
  std::set<std::uint64_t> tags;
  std::uint64_t bytes = 0;
  for (const ReadStream::Answer& answer : drain(*stream_)) {
    EXPECT_TRUE(answer.ok);
    EXPECT_EQ(answer.stopped_at, answer.tag + answer.bytes);
    tags.insert(answer.tag);
    bytes += answer.bytes;
  }
  EXPECT_EQ(tags.size(), 17u);
  EXPECT_EQ(bytes, content_.size());
  EXPECT_TRUE(holds_the_file());
  EXPECT_EQ(stream_->unanswered(), 0u);
  EXPECT_FALSE(stream_->next_deadline());
  EXPECT_EQ(stream_->counters().short_reads, 0u);
}

TEST_F(ReadStreamTest, ReadsDirectWhatThePageCacheLacks) {
  use(mib + 100);
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  push_all();
  for (const ReadStream::Answer& answer : drain(*stream_)) EXPECT_EQ(answer.path, ReadPath::direct);
  EXPECT_EQ(stream_->counters().direct_bytes, content_.size());
  EXPECT_EQ(stream_->counters().cached_bytes, 0u);
  EXPECT_EQ(cached_pages(folder_ / "model"), 0u);
}

TEST_F(ReadStreamTest, ReadsThroughThePageCacheWhatItHolds) {
  use(mib + 100);
  bring_into_page_cache(folder_ / "model");
  push_all();
  const auto answers = drain(*stream_);
  if (!file_->residency().available()) GTEST_SKIP() << "requires a kernel that tells what is cached";
  for (const ReadStream::Answer& answer : answers) EXPECT_EQ(answer.path, ReadPath::cached);
  EXPECT_EQ(stream_->counters().cached_bytes, content_.size());
  EXPECT_TRUE(holds_the_file());
}

TEST_F(ReadStreamTest, ReadsThroughThePageCacheWhereAnAddressIsNotAligned) {
  use(8192);
  stream_->push({.file = id_,
                 .extent = {.offset = 0, .length = 8192},
                 .needed_bytes = 8192,
                 .destination = destination_.data() + 1});
  const auto answers = drain(*stream_);
  ASSERT_TRUE(answers.front().ok);
  EXPECT_EQ(answers.front().path, ReadPath::cached);
  EXPECT_TRUE(std::ranges::equal(destination_.bytes().subspan(1, 8192), content_));
  EXPECT_EQ(destination_.data()[0], std::byte{0xa5});
}

TEST_F(ReadStreamTest, StaysDirectWhenToldToIgnoreThePageCache) {
  use(mib, {.consult_page_cache = false});
  if (!has_direct()) GTEST_SKIP() << "requires a temporary folder with direct I/O";
  bring_into_page_cache(folder_ / "model");
  push_all();
  (void)drain(*stream_);
  EXPECT_EQ(stream_->counters().cached_bytes, 0u);
  EXPECT_TRUE(holds_the_file());
}

TEST_F(ReadStreamTest, TakesAsManyRequestsAsPromisedAndNoMore) {
  use(mib, {.requests_max = 4});
  for (std::uint64_t index = 0; index < 4; ++index) push_extent(index * 4096, 4096);
  EXPECT_EQ(stream_->unanswered(), 4u);
  EXPECT_EQ(drain(*stream_).size(), 4u);
  push_extent(4 * 4096, 4096);
  EXPECT_EQ(drain(*stream_).size(), 1u);
}

TEST_F(ReadStreamTest, GivesAnswersInPartsWhenTheCallerHasLittleRoom) {
  use(mib);
  push_all();
  std::set<std::uint64_t> tags;
  while (stream_->unanswered() > 0) {
    ReadStream::Answer one;
    if (stream_->poll(monotonic_now(), std::span(&one, 1)) == 1) {
      EXPECT_TRUE(tags.insert(one.tag).second);
    } else {
      (void)wait_readable(stream_->event_fd(), 100);
    }
  }
  EXPECT_EQ(tags.size(), 16u);
}

TEST_F(ReadStreamTest, ReadsSeveralFilesAndLetsGoOfThem) {
  use(mib);
  write_durably(folder_ / "other", random_bytes(mib, 99));
  std::weak_ptr<CheckpointFile> watched;
  {
    auto other = *CheckpointFile::open(folder_ / "other");
    watched = other;
    const auto added = stream_->add(std::move(other));
    ASSERT_TRUE(added);
    push_whole(*stream_, *added, mib, step, 4096, destination_.bytes());
    (void)drain(*stream_);
    EXPECT_TRUE(std::ranges::equal(destination_.bytes().first(mib), random_bytes(mib, 99)));
    EXPECT_FALSE(watched.expired());
    stream_->remove(*added);
  }
  EXPECT_TRUE(watched.expired());
  push_all();
  (void)drain(*stream_);
  EXPECT_TRUE(holds_the_file());
}

TEST_F(ReadStreamTest, WritesNothingAfterItsDestruction) {
  use(2 * mib);
  push_all();
  std::array<ReadStream::Answer, 1> answers;
  (void)stream_->poll(monotonic_now(), answers);
  stream_.reset();
  std::ranges::fill(destination_.bytes(), std::byte{0});
  bring_into_page_cache(folder_ / "model");
  EXPECT_EQ(std::ranges::count(destination_.bytes(), std::byte{0}),
            static_cast<std::int64_t>(destination_.size()));
}

// Takes everything and finishes nothing, without a thread, so that a death test may fork.
class IdleReader final : public FileReader {
 public:
  Result<FileId> add(int, int) override { return FileId{1}; }
  void remove(FileId) override {}
  Result<> submit(std::span<const ReadOp> ops) override {
    in_flight_ += ops.size();
    return {};
  }
  Result<std::size_t> reap(std::span<ReadDone>) override { return std::size_t{0}; }
  void cancel_all() override {}
  std::size_t in_flight() const override { return in_flight_; }
  std::size_t queue_depth() const override { return 16; }
  int event_fd() const override { return -1; }
  std::string_view backend() const override { return "idle"; }

 private:
  std::size_t in_flight_ = 0;
};

TEST(ReadStreamDeathTest, StopsAtMoreRequestsThanPromisedAndAtAFileForgottenWhileItIsRead) {
  const auto stream = *ReadStream::make(std::make_unique<IdleReader>(), nullptr, {.requests_max = 2});
  const auto file = stream->add(*CheckpointFile::open("/proc/self/exe"));
  ASSERT_TRUE(file);
  std::array<std::byte, 8192> memory;
  const ReadStream::Request request{.file = *file,
                                    .extent = {.offset = 0, .length = 4096},
                                    .needed_bytes = 4096,
                                    .destination = memory.data()};
  stream->push(request);
  EXPECT_DEATH(stream->remove(*file), "CHECK");
  stream->push(request);
  EXPECT_DEATH(stream->push(request), "CHECK");
  EXPECT_EQ(stream->poll(Nanoseconds{1}, std::span<ReadStream::Answer>()), 0u);
  EXPECT_TRUE(stream->next_deadline()) << "without a descriptor only the clock brings a look";
}

TEST(ReadStreamText, SaysWhereAReadEnded) {
  const ReadStream::Answer ended{.kind = FailureKind::truncated, .stopped_at = 4096};
  EXPECT_EQ(describe(ended, 12388).message, "unexpected end at 4096 of 12388");
  const ReadStream::Answer failed{.kind = FailureKind::io_error, .native = 5, .stopped_at = 4096};
  EXPECT_EQ(describe(failed, 12388).message, "read failed at 4096: EIO");
  EXPECT_EQ(describe(failed, 12388).kind, FailureKind::io_error);
}

}  // namespace
}  // namespace penstock::test
