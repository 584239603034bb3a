// SPDX-License-Identifier: Apache-2.0
// Evictions: who is asked, what each answer means, and who gets the frame.
#include "tests/unit/core_pager/pager_rig.hpp"

namespace penstock::test {
namespace {

TEST(PagerEviction, AFullDeviceTakesThePageThatNobodyMapsWithoutAsking) {
  PagerRig rig(1);
  rig.start({alice}, 4);
  rig.prefetch(0, 1);
  rig.settle();
  rig.clear();
  rig.fault(alice, 3);
  ASSERT_GE(rig.commands().size(), 4u);
  EXPECT_TRUE(std::holds_alternative<DestroyFrame>(rig.commands()[0]));
  EXPECT_EQ(rig.all<Evicted>().front().reason, EvictReason::fault);
  EXPECT_TRUE(rig.all<Evicted>().front().refaultable);
  EXPECT_TRUE(std::holds_alternative<PageChanged>(rig.commands()[2]));
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{3});
  EXPECT_FALSE(rig.has<Revoke>());
}

TEST(PagerEviction, AMappedPageGoesWhenEachMapperHasAcknowledged) {
  PagerRig rig(1);
  rig.start({alice, bob, carol}, 4);
  rig.give(alice, 0);
  rig.give(bob, 0);
  const Ticket ticket = rig.fault(carol, 1);
  EXPECT_EQ(rig.revoked(0), (Sessions{alice, bob}));
  EXPECT_EQ(rig.residency(0), Residency::evicting);
  rig.acked(alice, 0);
  EXPECT_FALSE(rig.has<DestroyFrame>());
  rig.acked(bob, 0);
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
  EXPECT_EQ(rig.residency(0), Residency::absent);
  rig.create();
  rig.fill();
  EXPECT_TRUE(rig.done(ticket));
}

TEST(PagerEviction, AClosedSessionCountsAsAnAcknowledgement) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  rig.fault(bob, 1);
  EXPECT_EQ(rig.revoked(0), Sessions{alice});
  rig.step(SessionClosed{.session = alice});
  EXPECT_EQ(rig.residency(0), Residency::absent);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{1});
}

TEST(PagerEviction, ABusyPageStaysAndTheNextVictimIsTaken) {
  PagerRig rig(2);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0, 2);
  rig.fault(bob, 3);
  EXPECT_EQ(rig.pages<Revoke>(), Pages{1});  // The last page first.
  rig.busy(alice, 1);
  EXPECT_EQ(rig.residency(1), Residency::resident);
  EXPECT_EQ(rig.pages<Revoke>(), (Pages{1, 0}));
  rig.acked(alice, 0);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{3});
}

TEST(PagerEviction, AFaultIsOffloadedWhenAllIsPinned) {
  PagerRig rig(2);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0, 2);
  const Ticket ticket = rig.fault(bob, 3);
  rig.busy(alice, 1);
  EXPECT_FALSE(rig.answer(ticket).has_value());
  rig.busy(alice, 0);
  EXPECT_TRUE(rig.offloaded(ticket));
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::pinned);
  // Nothing is left of it: the next one is told at once.
  EXPECT_TRUE(rig.offloaded(rig.fault(bob, 2)));
}

TEST(PagerEviction, AnIdlePageIsAVictimAgain) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  EXPECT_FALSE(rig.offloaded(rig.fault(bob, 3)));
  rig.busy(alice, 0);
  rig.clear();
  rig.idle(alice, 0);
  rig.fault(bob, 3);
  EXPECT_EQ(rig.revoked(0), Sessions{alice});
}

TEST(PagerEviction, TheSessionThatAcknowledgedBeforeABusyGetsThePageAgain) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  rig.give(bob, 0);
  rig.fault(alice, 1);
  rig.acked(alice, 0);
  rig.busy(bob, 0);
  EXPECT_EQ(rig.residency(0), Residency::resident);
  rig.clear();
  const Ticket again = rig.fault(alice, 0);
  ASSERT_EQ(rig.pages<Grant>(), Pages{0});
  EXPECT_EQ(rig.all<Grant>().front().generation, Generation{1});
  EXPECT_TRUE(rig.done(again));
}

TEST(PagerEviction, APageWantedWhileItLeavesIsLoadedAgainWithANewGeneration) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  const Ticket other = rig.fault(alice, 1);
  rig.step(Cancel{.ticket = other});
  const Ticket ticket = rig.fault(bob, 0);
  EXPECT_FALSE(rig.has<Grant>());
  rig.acked(alice, 0);
  rig.create();
  ASSERT_EQ(rig.pages<Load>(), Pages{0});
  EXPECT_EQ(rig.all<Load>().front().generation, Generation{2});
  rig.fill();
  EXPECT_TRUE(rig.done(ticket));
}

TEST(PagerEviction, APageWantedWhileItLeavesIsGrantedWhenAClientIsBusyWithIt) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  const Ticket other = rig.fault(alice, 1);
  rig.step(Cancel{.ticket = other});
  const Ticket ticket = rig.fault(bob, 0);
  rig.busy(alice, 0);
  EXPECT_EQ(rig.pages<Grant>(), Pages{0});
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_FALSE(rig.has<CreateFrame>());
}

TEST(PagerEviction, AnswersForAnotherGenerationAreIgnored) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  rig.fault(bob, 1);
  for (const Generation wrong : {Generation{0}, Generation{2}}) {
    rig.step(Acked{.session = alice, .page = {weights, 0}, .generation = wrong});
    rig.step(Busy{.session = alice, .page = {weights, 0}, .generation = wrong});
    rig.step(Release{.session = alice, .page = {weights, 0}, .generation = wrong});
    EXPECT_EQ(rig.residency(0), Residency::evicting);
  }
  rig.acked(bob, 0);  // Who doesn't have it can't give it back.
  EXPECT_EQ(rig.residency(0), Residency::evicting);
}

TEST(PagerEviction, AnAcknowledgementThatNobodyAskedForEndsTheMapping) {
  PagerRig rig(2);
  rig.start({alice}, 4);
  rig.give(alice, 0);
  rig.acked(alice, 0);
  rig.fault(alice, 0);
  EXPECT_EQ(rig.pages<Grant>(), Pages{0});
}

TEST(PagerEviction, HeldPagesAreNoVictimsBeforeTheCompletingBatchIsSent) {
  PagerRig rig(2);
  rig.start({alice, bob}, 8);
  rig.fault(alice, 0, 2);
  rig.create();
  rig.fill();
  ASSERT_EQ(rig.pages<Grant>(), Pages{0});
  const Ticket waits = rig.fault(bob, 5);
  EXPECT_FALSE(rig.has<Revoke>());
  EXPECT_FALSE(rig.answer(waits).has_value());
  rig.map();
  ASSERT_EQ(rig.pages<Grant>(), Pages{1});
  EXPECT_EQ(rig.pages<Revoke>(), Pages{1});
}

TEST(PagerEviction, APageWhoseAcknowledgementIsOwedIsAVictim) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.fault(alice, 0);
  rig.create();
  rig.fill();
  ASSERT_EQ(rig.take_all<Grant>().size(), 1u);
  const Ticket waits = rig.fault(bob, 5);
  EXPECT_EQ(rig.revoked(0), Sessions{alice});
  rig.step(Granted{.session = alice, .batch = 1});  // Comes with the answer.
  rig.acked(alice, 0);
  rig.settle();
  EXPECT_TRUE(rig.done(waits));
}

TEST(PagerEviction, OnlyTheOldestStalledTicketTakesFrames) {
  PagerRig rig(2);
  rig.start({alice, bob, carol}, 8);
  rig.give(alice, 0, 2);
  rig.fault(bob, 4, 2);
  rig.fault(carol, 6);
  EXPECT_EQ(rig.pages<Revoke>(), (Pages{1, 0}));
  rig.acked(alice, 1);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{4});
  rig.acked(alice, 0);
  EXPECT_EQ(rig.pages<CreateFrame>(), (Pages{4, 5}));
}

TEST(PagerEviction, AFaultThatNeedsNoFrameDoesNotWaitForOneThatDoes) {
  PagerRig rig(2);
  rig.start({alice, bob, carol}, 8);
  rig.give(alice, 0, 2);
  rig.fault(bob, 4);
  EXPECT_TRUE(rig.done(rig.fault(carol, 0)));
}

TEST(PagerEviction, ARangeDoesNotEvictItsOwnPages) {
  PagerRig rig(3);
  rig.start({alice}, 8);
  rig.give(alice, 5, 3);
  rig.fault(alice, 4, 3);
  EXPECT_EQ(rig.pages<Revoke>(), Pages{7});
}

TEST(PagerEviction, AClientThatSaysBusyAndIdleInTurnCannotPutAFaultOffForEver) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  const Ticket ticket = rig.fault(bob, 1);
  const Ticket second = rig.fault(bob, 2);
  rig.step(Cancel{.ticket = second});
  for (int round = 0; round < 1000 && !rig.answer(ticket); ++round) {
    rig.busy(alice, 0);
    rig.idle(alice, 0);
  }
  EXPECT_TRUE(rig.offloaded(ticket));
}

TEST(PagerEviction, AReleaseWithDropTakesThePageOfItsLastMapper) {
  PagerRig rig(2);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  rig.give(bob, 0);
  const auto release = [&](SessionId session) {
    rig.step(
        Release{.session = session, .page = {weights, 0}, .generation = Generation{1}, .drop_if_last = true});
  };
  release(alice);
  EXPECT_EQ(rig.residency(0), Residency::resident);
  release(bob);
  EXPECT_EQ(rig.residency(0), Residency::absent);
  EXPECT_EQ(rig.all<Evicted>().front().reason, EvictReason::released);
}

TEST(PagerEviction, AReleaseInsteadOfAnAcknowledgementEndsTheEviction) {
  PagerRig rig(1);
  rig.start({alice, bob}, 4);
  rig.give(alice, 0);
  rig.fault(bob, 1);
  rig.step(Release{.session = alice, .page = {weights, 0}, .generation = Generation{1}});
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{1});
}

}  // namespace
}  // namespace penstock::test
