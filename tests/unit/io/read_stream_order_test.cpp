// SPDX-License-Identifier: Apache-2.0
// What starts when: faults before bulk, bounds in flight, bandwidth.
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/base/units.hpp"
#include "tests/support/random_file.hpp"
#include "tests/unit/io/stream_under_test.hpp"

namespace penstock::test {
namespace {

class ReadStreamOrder : public StreamTest {};

TEST_F(ReadStreamOrder, StartsFaultReadsBeforeBulkReads) {
  use(mib, {.bulk_bytes_in_flight = 2 * step});
  for (std::uint64_t at = 0; at < mib / 2; at += step) push_extent(at, step);
  push_extent(mib - step, step, Urgency::fault);
  std::array<ReadStream::Answer, 1> answers;
  (void)stream_->poll(monotonic_now(), answers);
  ASSERT_FALSE(faults_->history().empty());
  EXPECT_EQ(faults_->history().front().extent.offset, mib - step);
  (void)drain(*stream_);
}

TEST_F(ReadStreamOrder, KeepsABoundOnBulkBytesAndRoomForAFault) {
  use(2 * mib, {.bulk_bytes_in_flight = 4 * step});
  push_all();
  std::array<ReadStream::Answer, 1> answers;
  (void)stream_->poll(monotonic_now(), answers);
  EXPECT_EQ(faults_->history().size(), 4u);
  (void)drain(*stream_);

  use(2 * mib, {.bulk_bytes_in_flight = 64 * mib});
  push_all();
  (void)stream_->poll(monotonic_now(), std::span<ReadStream::Answer>());
  EXPECT_LE(faults_->history().size(), 12u) << "a quarter of the queue of 16 is for faults";
  (void)drain(*stream_);
}

TEST_F(ReadStreamOrder, HoldsTheBandwidthThatItWasGiven) {
  use(mib, {.bandwidth_bytes_per_second = mib, .consult_page_cache = false});
  push_all();
  Nanoseconds now = std::chrono::seconds(1000);
  const Nanoseconds start = now;
  std::array<ReadStream::Answer, 16> answers;
  std::size_t answered = 0;
  while (answered < 16) {
    answered += stream_->poll(now, answers);
    if (stream_->unanswered() == 0) break;
    if (faults_->in_flight() > 0) {
      ASSERT_TRUE(wait_readable(stream_->event_fd(), 20'000));
      continue;  // Reads take no time here: only waiting for bandwidth does.
    }
    ASSERT_TRUE(stream_->next_deadline());
    ASSERT_GT(*stream_->next_deadline(), now);
    now = *stream_->next_deadline();
  }
  // A mebibyte a second, of which a tenth is free at the start, and the last read may go into debt.
  EXPECT_GT(now - start, std::chrono::milliseconds(780));
  EXPECT_LT(now - start, std::chrono::milliseconds(1100));
  EXPECT_TRUE(holds_the_file());
}

TEST_F(ReadStreamOrder, DoesNotCountWhatComesFromThePageCache) {
  use(mib, {.bandwidth_bytes_per_second = 1});
  bring_into_page_cache(folder_ / "model");
  if (!file_->residency().wholly_cached({.offset = 0, .length = mib})) {
    GTEST_SKIP() << "requires cachestat(2), kernel 6.5";
  }
  push_all();
  EXPECT_EQ(drain(*stream_).size(), 16u);
  EXPECT_TRUE(holds_the_file());
}

}  // namespace
}  // namespace penstock::test
