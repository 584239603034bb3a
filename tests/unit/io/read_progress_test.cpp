// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/read_progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

using Verdict = ReadProgress::Verdict;
constexpr Extent tail{.offset = 12288, .length = 4096};  // 100 bytes are left in a file of 12,388.

TEST(ReadProgress, TakesATailRoundedPastTheEndAsComplete) {
  ReadProgress progress(tail, 100);
  EXPECT_EQ(progress.next(ReadPath::direct, 512), tail);
  EXPECT_EQ(progress.take(100, tail, ReadPath::direct), Verdict::complete);
  EXPECT_EQ(progress.bytes(), 100u);
}

TEST(ReadProgress, AsksTheCacheForNeededBytesOnly) {
  const ReadProgress progress(tail, 100);
  EXPECT_EQ(progress.next(ReadPath::cached, 512), (Extent{.offset = 12288, .length = 100}));
}

TEST(ReadProgress, ResumesADirectReadOnTheLastBoundary) {
  const Extent extent{.offset = 4096, .length = 4096};
  ReadProgress progress(extent, 4096);
  EXPECT_EQ(progress.take(1000, extent, ReadPath::direct), Verdict::more);
  const Extent rest = progress.next(ReadPath::direct, 512);
  EXPECT_EQ(rest, (Extent{.offset = 4096 + 512, .length = 4096 - 512}));
  EXPECT_EQ(progress.take(3584, rest, ReadPath::direct), Verdict::complete);
}

TEST(ReadProgress, ResumesACachedReadAtTheByte) {
  const Extent extent{.offset = 4096, .length = 4096};
  ReadProgress progress(extent, 4096);
  EXPECT_EQ(progress.take(1, extent, ReadPath::cached), Verdict::more);
  EXPECT_EQ(progress.next(ReadPath::cached, 512), (Extent{.offset = 4097, .length = 4095}));
}

TEST(ReadProgress, LeavesDirectReadsThatBringNothingNew) {
  const Extent extent{.offset = 0, .length = 4096};
  ReadProgress progress(extent, 4096);
  EXPECT_EQ(progress.take(1, extent, ReadPath::direct), Verdict::more);
  for (std::uint32_t stall = 1; stall < ReadProgress::stalls_max; ++stall) {
    EXPECT_EQ(progress.take(1, extent, ReadPath::direct), Verdict::more);
  }
  EXPECT_EQ(progress.take(1, extent, ReadPath::direct), Verdict::stalled);
  EXPECT_EQ(progress.bytes(), 1u);
}

TEST(ReadProgress, EndsAtAZeroBeforeTheEnd) {
  const Extent extent{.offset = 0, .length = 4096};
  ReadProgress progress(extent, 4096);
  EXPECT_EQ(progress.take(512, extent, ReadPath::direct), Verdict::more);
  EXPECT_EQ(progress.take(0, progress.next(ReadPath::direct, 512), ReadPath::direct), Verdict::ended);
  EXPECT_EQ(progress.bytes(), 512u);
}

TEST(ReadProgress, BoundsInterruptionsInARow) {
  const Extent extent{.offset = 0, .length = 4096};
  ReadProgress progress(extent, 4096);
  for (std::uint32_t retry = 0; retry < ReadProgress::retries_max; ++retry) {
    EXPECT_EQ(progress.take(retry % 2 == 0 ? -EAGAIN : -EINTR, extent, ReadPath::direct), Verdict::retry);
  }
  EXPECT_EQ(progress.take(-EAGAIN, extent, ReadPath::direct), Verdict::failed);
}

TEST(ReadProgress, ForgivesInterruptionsOnceAReadMovesOn) {
  const Extent extent{.offset = 0, .length = 4096};
  ReadProgress progress(extent, 4096);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t retry = 0; retry < ReadProgress::retries_max; ++retry) {
      EXPECT_EQ(progress.take(-EINTR, progress.next(ReadPath::direct, 512), ReadPath::direct),
                Verdict::retry);
    }
    EXPECT_EQ(progress.take(512, progress.next(ReadPath::direct, 512), ReadPath::direct), Verdict::more);
  }
}

TEST(ReadProgress, TellsARefusalOfDirectReadsFromAnError) {
  ReadProgress progress(tail, 100);
  EXPECT_EQ(progress.take(-EINVAL, tail, ReadPath::direct), Verdict::direct_refused);
  EXPECT_EQ(progress.take(-EOPNOTSUPP, tail, ReadPath::direct), Verdict::direct_refused);
  EXPECT_EQ(progress.take(-EINVAL, tail, ReadPath::cached), Verdict::failed);
  EXPECT_EQ(progress.take(-EIO, tail, ReadPath::direct), Verdict::failed);
}

// Any sequence of short answers ends, covers every needed byte without a hole, and stays on the granule.
TEST(ReadProgress, CoversEveryByteWhateverTheAnswers) {
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t granule = random.one_in(2) ? 512 : 4096;
    const Extent extent{.offset = random.below(100) * granule, .length = (1 + random.below(20)) * granule};
    const std::uint64_t needed = 1 + random.below(extent.length);
    const std::uint64_t limit = 1 + random.below(3 * granule);
    ReadProgress progress(extent, needed);
    ReadPath path = ReadPath::direct;
    std::uint64_t covered = 0;  // Bytes known to be good, from the extent's start.
    for (std::uint32_t step = 0;; ++step) {
      ASSERT_LT(step, needed + ReadProgress::stalls_max + 2) << "no end";
      const Extent asked = progress.next(path, granule);
      ASSERT_GT(asked.length, 0u);
      ASSERT_LE(asked.end(), extent.end());
      const bool aligned = asked.offset % granule == 0 && asked.length % granule == 0;
      ASSERT_TRUE(aligned || path == ReadPath::cached);
      const std::uint64_t result = std::min(asked.length, 1 + random.below(limit));
      ASSERT_LE(asked.offset, extent.offset + covered) << "a hole";
      covered = std::max(covered, asked.offset + result - extent.offset);
      const Verdict verdict = progress.take(static_cast<std::int32_t>(result), asked, path);
      if (verdict == Verdict::stalled) path = ReadPath::cached;
      if (verdict == Verdict::complete) break;
    }
    ASSERT_GE(covered, needed);
    ASSERT_EQ(progress.bytes(), covered);
  }
}

}  // namespace
}  // namespace penstock::test
