// SPDX-License-Identifier: Apache-2.0
// Deadlines: nobody waits without a bound for a client that doesn't answer.
#include "tests/unit/core_pager/pager_rig.hpp"

namespace penstock::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PagerDeadline, AnUnansweredRevokeMakesItsSessionStuckAndOthersAreTaken) {
  PagerRig rig(2);
  rig.start({alice, bob}, 8);
  rig.open_table(others, 8);
  rig.attach(bob, others);
  rig.step(Prioritize{.table = others});
  rig.give(bob, 0, 1, others);
  rig.give(alice, 0);
  const Ticket ticket = rig.fault(bob, 1);
  EXPECT_EQ(rig.revoked(0), Sessions{alice});
  rig.pass(milliseconds(999));
  EXPECT_FALSE(rig.has<SessionStuck>());
  rig.clear();
  rig.pass(milliseconds(1));
  ASSERT_EQ(rig.all<SessionStuck>().size(), 1u);
  EXPECT_EQ(rig.all<SessionStuck>().front().session, alice);
  EXPECT_EQ(rig.all<SessionStuck>().front().pages, 1u);
  EXPECT_EQ(rig.counts().stuck_frames, 1u);
  ASSERT_EQ(rig.all<Revoke>().size(), 1u);
  EXPECT_EQ(rig.all<Revoke>().front().session, bob);
  rig.acked(bob, 0, others);
  rig.create();
  rig.fill();
  EXPECT_TRUE(rig.done(ticket));
}

TEST(PagerDeadline, AFaultIsOffloadedWhenOnlyStuckPagesAreLeft) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  const Ticket ticket = rig.fault(bob, 1);
  rig.pass(seconds(1));
  EXPECT_TRUE(rig.offloaded(ticket));
}

TEST(PagerDeadline, ALateAnswerFinishesTheEviction) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  rig.fault(bob, 1);
  rig.pass(seconds(5));
  EXPECT_EQ(rig.residency(0), Residency::evicting);
  rig.clear();
  rig.acked(alice, 0);
  ASSERT_EQ(rig.all<SessionStuck>().size(), 1u);
  EXPECT_FALSE(rig.all<SessionStuck>().front().stuck);
  EXPECT_EQ(rig.residency(0), Residency::absent);
  EXPECT_EQ(rig.counts().stuck_frames, 0u);
}

TEST(PagerDeadline, PagesOfAStuckSessionAreNoVictimsUntilItSpeaks) {
  PagerRig rig(2);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0, 2);
  rig.fault(bob, 2);
  rig.pass(seconds(1));
  rig.clear();
  EXPECT_TRUE(rig.offloaded(rig.fault(bob, 3)));
  EXPECT_FALSE(rig.has<Revoke>());
  rig.step(SetCutoff{.session = alice, .table = weights, .pages = 8});
  rig.fault(bob, 3);
  // Page 1 is still leaving; that is room enough now that its session speaks.
  EXPECT_FALSE(rig.has<Revoke>());
  rig.acked(alice, 1);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{3});
}

TEST(PagerDeadline, APageThatAStuckSessionKeepsIsGrantedToOthers) {
  PagerRig rig(1);
  rig.start({alice, bob, carol}, 8);
  rig.give(alice, 0);
  rig.fault(bob, 1);
  const Ticket wants = rig.fault(carol, 0);
  EXPECT_FALSE(rig.answer(wants).has_value());
  rig.pass(seconds(1));
  EXPECT_TRUE(rig.done(wants));
  EXPECT_EQ(rig.residency(0), Residency::resident);
  // The revoke that is still open ends the stuck session's grant, and nothing else.
  rig.acked(alice, 0);
  EXPECT_EQ(rig.residency(0), Residency::resident);
}

TEST(PagerDeadline, ASecondEvictionDoesNotAskWhoStillOwesAnAnswer) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  rig.give(bob, 0);
  rig.fault(alice, 1);
  rig.busy(bob, 0);  // The eviction is given up; the revoke to alice is still open.
  rig.idle(bob, 0);
  rig.clear();
  rig.fault(bob, 2);
  EXPECT_EQ(rig.revoked(0), Sessions{bob});
  rig.acked(bob, 0);
  EXPECT_EQ(rig.residency(0), Residency::evicting);
  rig.acked(alice, 0);
  EXPECT_EQ(rig.residency(0), Residency::absent);
}

TEST(PagerDeadline, AnUnacknowledgedBatchMakesItsSessionStuckAndDropsItsHolds) {
  PagerRig rig(2);
  rig.start({alice, bob}, 8);
  const Ticket first = rig.fault(alice, 0, 2);
  rig.create();
  rig.fill();
  ASSERT_EQ(rig.pages<Grant>(), Pages{0});  // The other page waits behind it.
  const Ticket other = rig.fault(bob, 2);
  EXPECT_FALSE(rig.answer(other).has_value());
  rig.pass(seconds(1));
  EXPECT_TRUE(rig.has<SessionStuck>());
  EXPECT_TRUE(rig.offloaded(first));
  EXPECT_FALSE(rig.offloaded(other));
  EXPECT_EQ(rig.residency(1), Residency::absent);
  rig.clear();
  rig.step(Granted{.session = alice, .batch = 1});
  rig.fault(bob, 3);
  EXPECT_EQ(rig.revoked(0), Sessions{alice});
}

TEST(PagerDeadline, AnAcknowledgementThatNobodyWaitsForHasNoDeadline) {
  PagerRig rig(4);
  rig.start({alice, bob}, 8);
  rig.fault(alice, 0);
  rig.create();
  rig.fill();
  ASSERT_EQ(rig.take_all<Grant>().size(), 1u);
  EXPECT_FALSE(rig.core().next_deadline().has_value());
  rig.pass(seconds(100));
  rig.step(Tick{});
  EXPECT_FALSE(rig.has<SessionStuck>());
  // A request behind it gives the client a whole deadline from then on.
  const Ticket behind = rig.fault(alice, 1);
  rig.create();
  rig.fill();
  rig.pass(milliseconds(999));
  EXPECT_FALSE(rig.has<SessionStuck>());
  rig.pass(milliseconds(1));
  EXPECT_TRUE(rig.has<SessionStuck>());
  EXPECT_TRUE(rig.offloaded(behind));
}

TEST(PagerDeadline, RequestsBehindAnUnacknowledgedBatchAreOffloaded) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.fault(alice, 0);
  const Ticket behind = rig.fault(alice, 1);
  rig.create();
  rig.fill();
  rig.pass(seconds(1));
  EXPECT_TRUE(rig.offloaded(behind));
  EXPECT_EQ(rig.answer(behind)->reason, FailureKind::revoke_timeout);
}

TEST(PagerDeadline, LaterKeepsTheRevokeOpenWhileOthersAreTaken) {
  PagerRig rig(2);
  rig.open_table(weights, 8);
  for (const SessionId session : {alice, bob}) {
    rig.open(session);
    rig.attach(session, weights, RevokeMode::cooperative);
  }
  rig.give(alice, 0, 2);
  const Ticket ticket = rig.fault(bob, 5);
  EXPECT_EQ(rig.pages<Revoke>(), Pages{1});
  rig.busy(alice, 1, true);
  EXPECT_EQ(rig.residency(1), Residency::evicting);
  EXPECT_EQ(rig.pages<Revoke>(), (Pages{1, 0}));
  rig.busy(alice, 0, true);
  rig.pass(seconds(5));
  EXPECT_FALSE(rig.has<SessionStuck>());
  EXPECT_FALSE(rig.answer(ticket).has_value());  // One of the two will come.
  rig.acked(alice, 1);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{5});
}

TEST(PagerDeadline, TheCooperativeDeadlineRunsFromTheFirstRevoke) {
  PagerRig rig(1);
  rig.open_table(weights, 8);
  for (const SessionId session : {alice, bob}) {
    rig.open(session);
    rig.attach(session, weights, RevokeMode::cooperative);
  }
  rig.give(alice, 0);
  const Ticket ticket = rig.fault(bob, 5);
  rig.pass(milliseconds(900));
  rig.busy(alice, 0, true);
  rig.pass(seconds(29));
  rig.busy(alice, 0, true);  // Again: resets nothing.
  EXPECT_FALSE(rig.answer(ticket).has_value());
  rig.pass(milliseconds(100));
  EXPECT_TRUE(rig.offloaded(ticket));
  EXPECT_EQ(rig.counts().stuck_frames, 1u);
  EXPECT_FALSE(rig.has<SessionStuck>());  // The client answers: only the page counts as stuck.
  rig.acked(alice, 0);
  EXPECT_EQ(rig.residency(0), Residency::absent);
}

TEST(PagerDeadline, LaterFromAnAgentIsBusy) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  const Ticket ticket = rig.fault(bob, 5);
  rig.busy(alice, 0, true);
  EXPECT_EQ(rig.residency(0), Residency::resident);
  EXPECT_TRUE(rig.offloaded(ticket));
}

TEST(PagerDeadline, ThereIsNoDeadlineWhenNothingIsOpen) {
  PagerRig rig(2);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  EXPECT_FALSE(rig.core().next_deadline().has_value());
  rig.give(bob, 0);
  rig.fault(alice, 1, 2);
  EXPECT_TRUE(rig.core().next_deadline().has_value());
  rig.acked(alice, 0);
  rig.acked(bob, 0);
  EXPECT_FALSE(rig.core().next_deadline().has_value());
}

}  // namespace
}  // namespace penstock::test
