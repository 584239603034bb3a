// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dataplane/core/tier_book.hpp"

namespace penstock {
namespace {

using Way = TierBook::Way;
constexpr std::uint64_t page_bytes = 100;

// Files of ten pages; a page is asked for, made, filled and let go in one call.
class Book {
 public:
  explicit Book(std::uint64_t budget) : book(page_bytes, budget) {}

  TierFile file() { return book.open(10 * page_bytes); }
  Way want(TierFile file, std::uint32_t index) {
    const TierPage page{file, index};
    TierBook::Answer answer = book.ask(page);
    const Way first = answer.way;
    if (answer.way == Way::create) {
      book.made(answer.frame);
      answer = book.ask(page);
    }
    if (answer.way == Way::fill) book.filled(answer.frame, true);
    if (answer.way == Way::held) book.unpin(answer.frame);
    const auto how = first == Way::held   ? TierBook::Served::hit
                     : first == Way::pass ? TierBook::Served::pass
                                          : TierBook::Served::fill;
    book.served(file, page_bytes, how);
    book.verify();
    return first;
  }
  void sweep(TierFile file) {
    for (std::uint32_t index = 0; index < 10; ++index) want(file, index);
  }

  TierBook book;
};

std::vector<TierFrame> gone_of(TierBook& book) {
  std::vector<TierFrame> taken;
  book.take_gone(taken);
  return taken;
}
std::vector<TierFrame> calls_of(TierBook& book, TierUser user) {
  std::vector<TierFrame> taken;
  book.take_calls(user, taken);
  return taken;
}
std::vector<TierBook::Lost> lost_of(TierBook& book) {
  std::vector<TierBook::Lost> taken;
  book.take_lost(taken);
  return taken;
}

TEST(TierBook, HoldsWhatWasReadOnce) {
  Book node(4);
  const TierFile file = node.file();
  EXPECT_EQ(node.want(file, 3), Way::create);
  EXPECT_EQ(node.want(file, 3), Way::held);
  EXPECT_EQ(node.book.figures().hits, 1u);
  EXPECT_EQ(node.book.figures().miss_bytes, page_bytes);
}

TEST(TierBook, ASecondReaderWaitsForTheFirst) {
  TierBook book(page_bytes, 4);
  const TierPage page{book.open(1000), 0};
  const TierBook::Answer created = book.ask(page);
  EXPECT_EQ(book.ask(page).way, Way::wait);
  book.made(created.frame);
  EXPECT_EQ(book.ask(page).way, Way::fill);
  EXPECT_EQ(book.ask(page).way, Way::wait);
  book.filled(created.frame, true);
  EXPECT_EQ(book.ask(page).way, Way::held);
  book.unpin(created.frame);
  book.verify();
}

TEST(TierBook, ASweepOverMoreThanTheBudgetKeepsItsBeginning) {
  Book node(4);
  const TierFile file = node.file();
  node.sweep(file);
  node.sweep(file);
  EXPECT_EQ(node.book.figures().hits, 4u);
  EXPECT_EQ(node.want(file, 0), Way::held);
  EXPECT_EQ(node.want(file, 9), Way::pass);
}

TEST(TierBook, OfFilesUsedEquallyOftenTheNewerWins) {
  Book node(10);
  const TierFile old = node.file(), fresh = node.file();
  node.sweep(old);
  node.book.served(node.file(), page_bytes, TierBook::Served::pass);  // Something else went by since.
  node.sweep(fresh);
  EXPECT_EQ(node.book.held_frames(fresh), 10u);
  EXPECT_EQ(node.book.held_frames(old), 0u);
}

TEST(TierBook, FilesThatTakeTurnsDoNotDisplaceEachOther) {
  Book node(5);
  const TierFile one = node.file(), other = node.file();
  for (int round = 0; round < 4; ++round) {
    node.sweep(one);
    node.sweep(other);
  }
  EXPECT_EQ(node.book.figures().evictions, 0u);
  EXPECT_EQ(node.book.figures().hits, 3u * 5);
}

TEST(TierBook, WhatIsUsedOftenOutlastsASweepOfSomethingElse) {
  Book node(10);
  const TierFile often = node.file(), once = node.file();
  for (int round = 0; round < 4; ++round) node.sweep(often);
  node.sweep(once);
  EXPECT_EQ(node.book.held_frames(often), 10u);
  // It is not kept for ever: as many budgets of other traffic make it old.
  for (int round = 0; round < 6; ++round) node.sweep(node.file());
  EXPECT_EQ(node.book.held_frames(often), 0u);
}

TEST(TierBook, WhatAGpuHoldsAnywayIsWorthLess) {
  Book node(10);
  const TierFile on_gpu = node.file(), evicted = node.file();
  for (std::uint32_t index = 0; index < 5; ++index) node.want(on_gpu, index);
  for (std::uint32_t index = 0; index < 5; ++index) node.want(evicted, index);
  node.book.resident(on_gpu, 10 * page_bytes);
  EXPECT_LT(node.book.value(on_gpu), node.book.value(evicted));
  node.want(node.file(), 0);
  EXPECT_EQ(node.book.held_frames(on_gpu), 4u);
  EXPECT_EQ(node.book.held_frames(evicted), 5u);
}

TEST(TierBook, ABudgetThatFallsTakesEffectAtOnceButForPinnedPages) {
  Book node(6);
  const TierFile file = node.file();
  for (std::uint32_t index = 0; index < 6; ++index) node.want(file, index);
  const TierBook::Answer pinned = node.book.ask({file, 5});
  ASSERT_EQ(pinned.way, Way::held);
  node.book.set_budget(0);
  EXPECT_EQ(node.book.figures().frames, 1u);
  EXPECT_EQ(gone_of(node.book).size(), 5u);
  node.book.unpin(pinned.frame);
  EXPECT_EQ(node.book.figures().frames, 0u);
  EXPECT_EQ(lost_of(node.book).size(), 6u);
  EXPECT_EQ(node.book.ask({file, 5}).way, Way::pass);
  node.book.verify();
}

TEST(TierBook, AFrameIsGoneOnlyWhenNoWriterMapsIt) {
  Book node(1);
  const TierFile file = node.file();
  node.want(file, 0);
  const TierBook::Answer held = node.book.ask({file, 0});
  node.book.hold(held.frame, 0);
  node.book.hold(held.frame, 3);
  node.book.forget(file);
  EXPECT_FALSE(node.book.calls(0)) << "a copy is under way";
  node.book.unpin(held.frame);
  EXPECT_TRUE(gone_of(node.book).empty());
  EXPECT_EQ(calls_of(node.book, 0), std::vector{held.frame});
  EXPECT_EQ(calls_of(node.book, 3), std::vector{held.frame});
  EXPECT_TRUE(calls_of(node.book, 1).empty());
  node.book.let_go(held.frame, 3);
  EXPECT_TRUE(gone_of(node.book).empty());
  node.book.let_go(held.frame, 0);
  EXPECT_EQ(gone_of(node.book), std::vector{held.frame});
}

TEST(TierBook, AForgottenFileIsFoundNoMore) {
  TierBook book(page_bytes, 8);
  const TierFile file = book.open(1000);
  const TierBook::Answer filling = book.ask({file, 0}), awaited = book.ask({file, 1});
  book.made(filling.frame);
  ASSERT_EQ(book.ask({file, 0}).way, Way::fill);
  book.forget(file);
  EXPECT_EQ(book.ask({file, 0}).way, Way::pass);
  book.verify();
  book.made(awaited.frame);
  book.filled(filling.frame, true);
  EXPECT_EQ(gone_of(book).size(), 2u);
  EXPECT_EQ(book.figures().frames, 0u);
  EXPECT_EQ(book.figures().valid_frames, 0u);
  book.verify();
}

TEST(TierBook, APageThatCouldNotBeReadIsNotHeld) {
  TierBook book(page_bytes, 1);
  const TierPage page{book.open(1000), 0};
  const TierBook::Answer created = book.ask(page);
  book.made(created.frame);
  ASSERT_EQ(book.ask(page).way, Way::fill);
  book.filled(created.frame, false);
  EXPECT_EQ(book.figures().frames, 0u);
  EXPECT_EQ(book.ask(page).way, Way::create);
}

TEST(TierBook, AFrameThatCouldNotBeMadeIsNotAskedForAtOnceAgain) {
  TierBook book(page_bytes, 1);
  const TierPage page{book.open(1000), 0};
  book.refused(book.ask(page).frame);
  EXPECT_EQ(book.figures().frames, 0u);
  book.verify();
  EXPECT_EQ(book.ask(page).way, Way::pass);
  for (int read = 0; read < 64; ++read) book.served(page.file, 1, TierBook::Served::pass);
  EXPECT_EQ(book.ask(page).way, Way::create);
}

}  // namespace
}  // namespace penstock
