// SPDX-License-Identifier: Apache-2.0
// Budgets, requests to evict, prefetches, frames that the device refuses, and the loss of the writer.
#include "tests/unit/core_pager/pager_rig.hpp"

namespace penstock::test {
namespace {

TEST(PagerBudget, AShrinkingBudgetEvictsUntilItFits) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 2);
  rig.prefetch(2, 2);
  rig.settle();
  rig.clear();
  const Ticket ticket = rig.set_budget(1);
  EXPECT_EQ(rig.counts().used_frames, 2u);  // Nobody maps two of them.
  EXPECT_EQ(rig.pages<Revoke>(), Pages{1});
  EXPECT_FALSE(rig.answer(ticket).has_value());
  rig.acked(alice, 1);
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.answer(ticket)->frames, 3u);
  EXPECT_EQ(rig.answer(ticket)->kept_pinned, 0u);
  for (const Evicted& evicted : rig.all<Evicted>()) EXPECT_EQ(evicted.reason, EvictReason::budget);
}

TEST(PagerBudget, PinnedPagesStayAndAreReported) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 2);
  const Ticket ticket = rig.set_budget(0);
  rig.busy(alice, 0);
  rig.acked(alice, 1);
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.answer(ticket)->kept_pinned, 1u);
  rig.clear();
  rig.idle(alice, 0);  // Still above the budget: goes when it can.
  EXPECT_EQ(rig.pages<Revoke>(), Pages{0});
}

TEST(PagerBudget, ANewBudgetSupersedesTheOld) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 2);
  const Ticket first = rig.set_budget(1);
  const Ticket second = rig.set_budget(4);
  EXPECT_EQ(rig.answer(first)->result, TicketResult::cancelled);
  EXPECT_TRUE(rig.done(second));
}

TEST(PagerBudget, AGrowingBudgetServesWhoWaits) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  rig.fault(bob, 1);
  EXPECT_FALSE(rig.has<CreateFrame>());
  rig.set_budget(2);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{1});
}

TEST(PagerEvictRequest, TakesTheUnpinnedPagesOfATableAndReportsTheOthers) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.open_table(others, 8);
  rig.attach(alice, others);
  rig.give(alice, 0, 1, others);
  rig.give(alice, 0, 2);
  const Ticket ticket = rig.evict(weights);
  EXPECT_EQ(rig.pages<Revoke>(), (Pages{1, 0}));
  rig.busy(alice, 1);
  rig.acked(alice, 0);
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.answer(ticket)->frames, 1u);
  EXPECT_EQ(rig.answer(ticket)->kept_pinned, 1u);
  EXPECT_EQ(rig.core().resident_frames(others), 1u);
}

TEST(PagerEvictRequest, TakesNoMoreThanAskedFor) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.prefetch(0, 4);
  rig.settle();
  rig.clear();
  const Ticket ticket = rig.evict(std::nullopt, 3);
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.answer(ticket)->frames, 3u);
  EXPECT_EQ(rig.answer(ticket)->kept_pinned, 0u);
  EXPECT_EQ(rig.counts().used_frames, 1u);
}

TEST(PagerEvictPage, TakesThatPageAndNoOther) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 3);
  rig.clear();
  rig.step(EvictPage{.page = {.table = weights, .index = 1}, .generation = Generation{1}});
  EXPECT_EQ(rig.pages<Revoke>(), Pages{1});
  rig.acked(alice, 1);
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
  EXPECT_EQ(rig.core().residency({.table = weights, .index = 1}), Residency::absent);
  EXPECT_EQ(rig.counts().used_frames, 2u);
}

TEST(PagerEvictPage, LeavesWhatIsNewerInUseOrUnknown) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 1);
  rig.clear();
  rig.step(EvictPage{.page = {.table = weights, .index = 0}, .generation = Generation{2}});
  rig.step(EvictPage{.page = {.table = weights, .index = 5}, .generation = Generation{0}});
  rig.step(EvictPage{.page = {.table = weights, .index = 800}, .generation = Generation{1}});
  rig.step(EvictPage{.page = {.table = TableId{77}, .index = 0}, .generation = Generation{1}});
  EXPECT_FALSE(rig.has<Revoke>());
  EXPECT_EQ(rig.counts().used_frames, 1u);
}

TEST(PagerPrefetch, LoadsInTheBackgroundAndGrantsNothing) {
  PagerRig rig(8);
  rig.start({alice}, 8);
  const Ticket ticket = rig.prefetch(1, 3);
  rig.create();
  EXPECT_EQ(rig.all<Load>().front().urgency, Urgency::bulk);
  rig.fill();
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.answer(ticket)->frames, 3u);
  EXPECT_FALSE(rig.has<Grant>());
}

TEST(PagerPrefetch, EndsWithFewerPagesInsteadOfEvictingItsOwnTable) {
  PagerRig rig(3);
  rig.start({alice}, 8);
  const Ticket ticket = rig.prefetch(0, 8);
  rig.settle();
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.answer(ticket)->frames, 3u);
  EXPECT_FALSE(rig.has<Evicted>());
}

TEST(PagerPrefetch, EvictsATableThatNobodyUses) {
  PagerRig rig(2);
  rig.open_table(others, 4);
  rig.prefetch(0, 2, others);
  rig.settle();
  rig.clear();
  rig.start({alice}, 8);
  const Ticket ticket = rig.prefetch(0, 2);
  rig.settle();
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.all<Evicted>().size(), 2u);
  EXPECT_EQ(rig.all<Evicted>().front().reason, EvictReason::prefetch);
}

TEST(PagerPrefetch, KeepsAFewPagesUnderWay) {
  PagerRig rig(100);
  rig.start({alice}, 100);
  rig.prefetch(0, 100);
  const std::size_t window = rig.all<CreateFrame>().size();
  EXPECT_LE(window, 32u);
  rig.create();
  EXPECT_EQ(rig.all<Load>().size(), window);
}

TEST(PagerPrefetch, AFaultGoesFirst) {
  PagerRig rig(3);
  rig.start({alice, bob}, 8);
  rig.open_table(others, 4);
  rig.give(alice, 0, 3);
  rig.fault(bob, 3);  // Waits for page 2.
  rig.step(Prioritize{.table = others});
  rig.prefetch(0, 1, others);
  rig.acked(alice, 2);
  ASSERT_EQ(rig.all<CreateFrame>().size(), 1u);
  EXPECT_EQ(rig.all<CreateFrame>().front().page, (PageKey{weights, 3}));
}

TEST(PagerPrefetch, AFaultOnAPageThatIsBeingPrefetchedWaitsForIt) {
  PagerRig rig(3);
  rig.start({alice}, 8);
  rig.prefetch(0, 1);
  rig.create();
  const Ticket ticket = rig.fault(alice, 0);
  EXPECT_FALSE(rig.has<CreateFrame>());
  rig.fill();
  EXPECT_TRUE(rig.done(ticket));
}

TEST(PagerExhausted, AFaultIsTriedAgainInThePlaceOfAnEvictedPage) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.prefetch(0, 1);
  rig.settle();
  rig.clear();
  const Ticket ticket = rig.fault(alice, 1);
  rig.take_all<CreateFrame>();
  rig.step(NotCreated{.page = {weights, 1}, .reason = FailureKind::headroom});
  EXPECT_EQ(rig.all<Evicted>().size(), 1u);
  ASSERT_EQ(rig.pages<CreateFrame>(), Pages{1});
  rig.step(NotCreated{.page = {weights, 1}, .reason = FailureKind::headroom});
  EXPECT_TRUE(rig.offloaded(ticket));
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::headroom);
  EXPECT_EQ(rig.counts().used_frames, 0u);
}

TEST(PagerExhausted, AFaultIsOffloadedWithTheReasonWhenThereIsNoVictim) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket ticket = rig.fault(alice, 1);
  rig.step(NotCreated{.page = {weights, 1}, .reason = FailureKind::fd_limit});
  EXPECT_TRUE(rig.offloaded(ticket));
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::fd_limit);
}

TEST(PagerWriterLost, WhatWasBeingFilledIsDestroyedAndTriedOnceMore) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket ticket = rig.fault(alice, 0, 2);
  rig.create();
  rig.step(Loaded{.page = {weights, 0}, .generation = Generation{1}, .ok = true});
  rig.map();
  rig.clear();
  rig.step(WriterLost{});
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
  EXPECT_EQ(rig.residency(0), Residency::resident);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{1});
  rig.create();
  rig.step(Loaded{.page = {weights, 1}, .generation = Generation{1}, .ok = true});  // The lost one: too late.
  EXPECT_EQ(rig.residency(1), Residency::loading);
  rig.step(WriterLost{});
  ASSERT_TRUE(rig.answer(ticket).has_value());
  EXPECT_EQ(rig.answer(ticket)->result, TicketResult::failed);
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.counts().used_frames, 1u);
}

TEST(PagerWriterLost, NothingIsEvictedForADeviceThatMakesNoFrames) {
  PagerRig rig(4);
  rig.start({alice, bob}, 8);
  rig.fault(alice, 0, 2);
  rig.create();
  for (std::uint32_t page : {0u, 1u}) {
    rig.step(Loaded{.page = {weights, page}, .generation = Generation{1}, .ok = true});
  }
  rig.map();
  rig.clear();
  const Ticket ticket = rig.fault(bob, 4, 2);
  for (std::uint32_t page : {4u, 5u}) {
    rig.step(NotCreated{.page = {weights, page}, .reason = FailureKind::device_unhealthy});
  }
  EXPECT_TRUE(rig.offloaded(ticket));
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::device_unhealthy);
  EXPECT_FALSE(rig.has<Revoke>());
  const Ticket ahead = rig.prefetch(6, 1);
  rig.step(NotCreated{.page = {weights, 6}, .reason = FailureKind::device_unhealthy});
  EXPECT_EQ(rig.answer(ahead)->result, TicketResult::failed);
  EXPECT_EQ(rig.answer(ahead)->reason, FailureKind::device_unhealthy);
  // The next one is tried at once: there is room.
  rig.fault(bob, 6, 1);
  EXPECT_TRUE(rig.has<CreateFrame>());
}

TEST(PagerWriterLost, ADeviceThatFailsEveryLoadEndsTheFault) {
  PagerRig rig(8);
  rig.start({alice, bob}, 8);
  const Ticket ticket = rig.fault(alice, 0, 6);
  const Ticket other = rig.fault(bob, 2, 6);
  int loads = 0;
  while (rig.has<CreateFrame>() || rig.has<Load>()) {
    rig.create();
    const std::vector<Load> failing = rig.take_all<Load>();
    for (const Load& load : failing) {
      ASSERT_LE(++loads, 100);
      rig.step(Loaded{.page = load.page,
                      .generation = load.generation,
                      .ok = false,
                      .reason = FailureKind::device_unhealthy});
    }
  }
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.answer(other)->reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.counts().used_frames, 0u);
}

TEST(PagerWriterLost, ALossThatIsToldPageByPageCountsOnce) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket ticket = rig.fault(alice, 0, 2);
  rig.create();
  const auto lose = [&](std::uint32_t page, std::uint64_t generation) {
    rig.step(Loaded{.page = {weights, page},
                    .generation = Generation{generation},
                    .ok = false,
                    .reason = FailureKind::device_unhealthy});
  };
  lose(0, 1);
  lose(1, 1);
  EXPECT_FALSE(rig.answer(ticket).has_value());
  rig.create();
  lose(1, 2);
  ASSERT_TRUE(rig.answer(ticket).has_value());
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::device_unhealthy);
}

}  // namespace
}  // namespace penstock::test
