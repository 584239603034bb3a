// SPDX-License-Identifier: Apache-2.0
// What clients have on GPUs that can't share memory: booked before it is allocated, by number, until it is given back.
#include <gtest/gtest.h>

#include "service/policy/copy_ledger.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr SessionId one{1}, two{2};

class CopiesOfTables : public testing::Test {
 protected:
  CopiesOfTables() {
    ledger_.add({.id = "cuda-0", .kind = "cuda", .total_bytes = 10 * gib, .headroom_bytes = 2 * gib});
    ledger_.add({.id = "hip-0", .kind = "hip", .total_bytes = 4 * gib, .headroom_bytes = 0});
  }
  Outcome<void> book(SessionId session, std::uint64_t copy, std::uint64_t bytes, bool exists = false) {
    return ledger_.book(session, {.gpu = "cuda-0", .copy = copy, .bytes = bytes, .exists = exists});
  }
  std::uint64_t on(std::size_t gpu) const { return ledger_.figures()[gpu].copies_bytes; }

  CopyLedger ledger_;
};

TEST_F(CopiesOfTables, OfAllClientsTogetherFitTheGpu) {
  EXPECT_TRUE(book(one, 1, 5 * gib));
  const auto refused = book(two, 1, 4 * gib);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::exhausted);
  EXPECT_EQ(
      refused.error().message,
      "a copy of 4096 MiB on cuda-0: copies of tables take 5120 MiB of 8192 MiB, and 3072 MiB are left");
  EXPECT_TRUE(book(two, 1, 3 * gib));
  EXPECT_EQ(on(0), 8 * gib);
  EXPECT_EQ(ledger_.figures()[0].sessions, 2u);
  // The other GPU is its own.
  EXPECT_TRUE(ledger_.book(two, {.gpu = "hip-0", .copy = 2, .bytes = 4 * gib, .exists = false}));
  EXPECT_EQ(on(1), 4 * gib);
  EXPECT_EQ(ledger_.bytes_of(two),
            (std::map<std::string_view, std::uint64_t>{{"cuda-0", 3 * gib}, {"hip-0", 4 * gib}}));
}

TEST_F(CopiesOfTables, AreGivenBackByNumberOrWithTheSession) {
  EXPECT_TRUE(book(one, 1, 4 * gib));
  EXPECT_TRUE(book(one, 2, 4 * gib));
  EXPECT_TRUE(book(one, 1, 0));
  EXPECT_EQ(on(0), 4 * gib);
  EXPECT_TRUE(book(one, 7, 0)) << "one that is not booked";
  EXPECT_TRUE(book(two, 2, 0)) << "of another session";
  EXPECT_EQ(on(0), 4 * gib);
  ledger_.close(one);
  EXPECT_EQ(on(0), 0u);
  EXPECT_TRUE(ledger_.bytes_of(one).empty());
}

TEST_F(CopiesOfTables, ThatExistAreCountedWhateverThereIsRoomFor) {
  EXPECT_TRUE(book(one, 1, 8 * gib));
  EXPECT_TRUE(book(two, 1, 8 * gib, true));
  EXPECT_EQ(on(0), 16 * gib);
  EXPECT_FALSE(book(one, 2, 1));
  EXPECT_TRUE(book(two, 2, UINT64_MAX, true));
  EXPECT_EQ(on(0), UINT64_MAX) << "a client can't make the sum wrap";
}

TEST_F(CopiesOfTables, AreBookedAnewUnderTheirNumber) {
  EXPECT_TRUE(book(one, 1, 6 * gib));
  EXPECT_TRUE(book(one, 1, 8 * gib)) << "what it had makes room";
  EXPECT_FALSE(book(one, 1, 9 * gib));
  EXPECT_EQ(on(0), 8 * gib) << "a refusal changes nothing";
}

TEST_F(CopiesOfTables, OfUnknownGpusAndTooManyAreRefused) {
  EXPECT_EQ(ledger_.book(one, {.gpu = "cuda-1", .copy = 1, .bytes = 1, .exists = true}).error().kind,
            FailureKind::not_found);
  for (std::uint64_t copy = 1; copy <= CopyLedger::copies_per_session_max; ++copy)
    ASSERT_TRUE(book(one, copy, 1));
  EXPECT_EQ(book(one, CopyLedger::copies_per_session_max + 1, 1).error().kind, FailureKind::busy);
  EXPECT_TRUE(book(one, 1, 2));
}

}  // namespace
}  // namespace penstock
