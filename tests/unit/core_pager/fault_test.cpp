// SPDX-License-Identifier: Apache-2.0
// Faults: from an absent page to a grant.
#include "tests/unit/core_pager/pager_rig.hpp"

namespace penstock::test {
namespace {

TEST(PagerFault, AnAbsentPageIsCreatedLoadedAndGranted) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket ticket = rig.fault(alice, 3);
  EXPECT_EQ(rig.pages<CreateFrame>(), Pages{3});
  EXPECT_EQ(rig.residency(3), Residency::loading);
  rig.create();
  ASSERT_EQ(rig.pages<Load>(), Pages{3});
  const Load load = rig.all<Load>().front();
  EXPECT_EQ(load.generation, Generation{1});
  EXPECT_EQ(load.frame, FrameId{100});
  EXPECT_EQ(load.urgency, Urgency::fault);
  EXPECT_FALSE(rig.has<Grant>());
  rig.fill();
  EXPECT_EQ(rig.residency(3), Residency::resident);
  ASSERT_EQ(rig.pages<Grant>(), Pages{3});
  const Grant grant = rig.all<Grant>().front();
  EXPECT_EQ(grant.session, alice);
  EXPECT_EQ(grant.batch, 1u);
  EXPECT_EQ(grant.frame, FrameId{100});
  EXPECT_FALSE(grant.writable);
  EXPECT_TRUE(grant.last);
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.counts().used_frames, 1u);
}

TEST(PagerFault, TheCompletionFollowsTheLastGrantAtOnce) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.fault(alice, 0, 3);
  rig.create();
  rig.fill();
  rig.map();
  rig.clear();
  rig.open(bob);
  rig.attach(bob, weights);
  rig.fault(bob, 0, 3);
  ASSERT_EQ(rig.commands().size(), 7u);  // Each page is alice's too, which is told first.
  EXPECT_EQ(rig.all<SharingChanged>().size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Complete>(rig.commands().back()));
  EXPECT_EQ(rig.pages<Grant>(), (Pages{0, 1, 2}));
  EXPECT_TRUE(rig.all<Grant>().back().last);
  EXPECT_FALSE(rig.all<Grant>().front().last);
}

TEST(PagerFault, TwoSessionsThatWantOneAbsentPageCauseOneLoad) {
  PagerRig rig(4);
  rig.start({alice, bob}, 8);
  const Ticket first = rig.fault(alice, 5);
  const Ticket second = rig.fault(bob, 5);
  rig.create();
  EXPECT_EQ(rig.pages<Load>(), Pages{5});
  rig.fill();
  EXPECT_TRUE(rig.done(first));
  EXPECT_TRUE(rig.done(second));
  EXPECT_EQ(rig.pages<Grant>(), (Pages{5, 5}));
}

TEST(PagerFault, APageThatTheSessionHasIsNotGrantedAgain) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 2);
  const Ticket again = rig.fault(alice, 2);
  EXPECT_TRUE(rig.done(again));
  EXPECT_FALSE(rig.has<Grant>());
  const Ticket range = rig.fault(alice, 1, 2);
  rig.create();
  rig.fill();
  EXPECT_EQ(rig.pages<Grant>(), Pages{1});
  EXPECT_TRUE(rig.done(range));
}

TEST(PagerFault, OneBatchASessionIsUnacknowledged) {
  PagerRig rig(8);
  rig.start({alice}, 8);
  const Ticket first = rig.fault(alice, 0);
  const Ticket second = rig.fault(alice, 1);
  rig.create();
  rig.fill();
  EXPECT_EQ(rig.pages<Grant>(), Pages{0});
  EXPECT_TRUE(rig.done(first));
  EXPECT_FALSE(rig.answer(second).has_value());
  rig.map();
  EXPECT_EQ(rig.pages<Grant>(), Pages{1});
  EXPECT_EQ(rig.all<Grant>().front().batch, 2u);
  EXPECT_TRUE(rig.done(second));
}

TEST(PagerFault, ALongRangeComesInBatchesOf128) {
  PagerRig rig(400);
  rig.start({alice}, 400);
  const Ticket ticket = rig.fault(alice, 0, 300);
  rig.create();
  for (const Load& load : rig.take_all<Load>()) {
    rig.step(Loaded{.page = load.page, .generation = load.generation, .ok = true});
  }
  std::vector<std::size_t> batches;
  while (rig.has<Grant>()) {
    batches.push_back(rig.all<Grant>().size());
    EXPECT_EQ(std::ranges::count_if(rig.all<Grant>(), [](const Grant& grant) { return grant.last; }), 1);
    rig.map();
  }
  // The first page is granted when it is there, the others when that is mapped.
  EXPECT_EQ(batches, (std::vector<std::size_t>{1, 128, 128, 43}));
  EXPECT_TRUE(rig.done(ticket));
}

TEST(PagerFault, AStaleBatchNumberAcknowledgesNothing) {
  PagerRig rig(8);
  rig.start({alice}, 8);
  rig.fault(alice, 0);
  rig.fault(alice, 1);
  rig.create();
  rig.fill();
  rig.take_all<Grant>();
  rig.step(Granted{.session = alice, .batch = 7});
  EXPECT_FALSE(rig.has<Grant>());
}

TEST(PagerFault, APageAboveTheCutOffIsOffloadedUnlessItIsResident) {
  PagerRig rig(8);
  rig.start({alice}, 8);
  rig.give(alice, 6);
  rig.step(SetCutoff{.session = alice, .table = weights, .pages = 4});
  EXPECT_TRUE(rig.offloaded(rig.fault(alice, 3, 2)));
  EXPECT_TRUE(rig.done(rig.fault(alice, 6)));
  EXPECT_FALSE(rig.has<CreateFrame>());
}

TEST(PagerFault, ARangeThatCanNeverBeHeldIsOffloadedAtOnce) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket ticket = rig.fault(alice, 0, 5);
  EXPECT_TRUE(rig.offloaded(ticket));
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::never_fits);
  EXPECT_FALSE(rig.has<CreateFrame>());
}

TEST(PagerFault, ARangeOutsideTheTableFails) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket outside = rig.fault(alice, 7, 2);
  EXPECT_EQ(rig.answer(outside)->reason, FailureKind::invalid_argument);
  const Ticket wraps = rig.fault(alice, 1, 0xffffffff);
  EXPECT_EQ(rig.answer(wraps)->reason, FailureKind::invalid_argument);
  const Ticket stranger = rig.fault(bob, 0, 1);
  EXPECT_EQ(rig.answer(stranger)->reason, FailureKind::not_found);
}

TEST(PagerFault, AFailedLoadFailsEveryoneWhoWaitsAndLeavesNothing) {
  PagerRig rig(4);
  rig.start({alice, bob}, 8);
  const Ticket first = rig.fault(alice, 1);
  const Ticket second = rig.fault(bob, 0, 2);
  rig.create();
  rig.step(Loaded{
      .page = {weights, 1}, .generation = Generation{1}, .ok = false, .reason = FailureKind::io_error});
  for (const Ticket ticket : {first, second}) {
    ASSERT_TRUE(rig.answer(ticket).has_value());
    EXPECT_EQ(rig.answer(ticket)->result, TicketResult::failed);
    EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::io_error);
  }
  EXPECT_EQ(rig.residency(1), Residency::absent);
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
  rig.fill();
  EXPECT_EQ(rig.counts().used_frames, 1u);  // Page 0 has come in all the same.
}

TEST(PagerFault, ACancelledFaultIsAnsweredOnceAndItsLoadGoesOn) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  const Ticket ticket = rig.fault(alice, 0);
  rig.step(Cancel{.ticket = ticket, .reason = FailureKind::deadline});
  ASSERT_TRUE(rig.answer(ticket).has_value());
  EXPECT_EQ(rig.answer(ticket)->result, TicketResult::cancelled);
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::deadline);
  rig.step(Cancel{.ticket = ticket});
  rig.create();
  rig.fill();
  EXPECT_EQ(rig.residency(0), Residency::resident);
  EXPECT_FALSE(rig.has<Grant>());
}

}  // namespace
}  // namespace penstock::test
