// SPDX-License-Identifier: Apache-2.0
// Private pages: anonymous tables and copies of shared pages.
#include "tests/unit/core_pager/pager_rig.hpp"

namespace penstock::test {
namespace {

// Alice has the shared table and its overlay, with a quota of private frames.
void start(PagerRig& rig, std::uint32_t quota = 0) {
  rig.open_table(weights, 8);
  rig.open(alice, quota);
  rig.open_table(copies, 8, TableKind::overlay);
  rig.open_table(scratch, 8, TableKind::anonymous);
  rig.attach(alice, weights);
  rig.attach(alice, copies);
  rig.attach(alice, scratch);
  rig.open(bob);
  rig.attach(bob, weights);
}

TEST(PagerPrivate, AnAnonymousPageIsResidentWhenItsFrameIsThere) {
  PagerRig rig(2);
  start(rig);
  const Ticket ticket = rig.fault(alice, 2, 1, scratch);
  rig.create();
  EXPECT_FALSE(rig.has<Load>());
  ASSERT_EQ(rig.pages<Grant>(), Pages{2});
  EXPECT_TRUE(rig.all<Grant>().front().writable);
  EXPECT_TRUE(rig.done(ticket));
  EXPECT_EQ(rig.counts().private_frames, 1u);
}

TEST(PagerPrivate, AnEvictedAnonymousPageComesBackWithANewGeneration) {
  PagerRig rig(1);
  start(rig);
  rig.give(alice, 0, 1, scratch);
  rig.fault(bob, 0);
  rig.acked(alice, 0, scratch);
  EXPECT_FALSE(rig.all<Evicted>().front().refaultable);
  rig.settle();
  rig.acked(bob, 0);
  rig.clear();
  rig.fault(alice, 0, 1, scratch);
  rig.create();
  ASSERT_TRUE(rig.has<Grant>());
  EXPECT_EQ(rig.all<Grant>().front().generation, Generation{2});
}

TEST(PagerPrivate, AReleasedAnonymousPageIsDestroyed) {
  PagerRig rig(2);
  start(rig);
  rig.give(alice, 0, 1, scratch);
  rig.step(Release{.session = alice, .page = {scratch, 0}, .generation = Generation{1}});
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
  EXPECT_EQ(rig.counts().private_frames, 0u);
}

TEST(PagerPrivate, APageReleasedBeforeItsBatchIsAcknowledgedIsDestroyedAtOnce) {
  PagerRig rig(2);
  start(rig);
  rig.fault(alice, 0, 1, scratch);
  rig.create();
  rig.step(Release{.session = alice, .page = {scratch, 0}, .generation = Generation{1}});
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
  rig.map();
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 1u);
}

TEST(PagerPrivate, APrivateCopyIsMadeFromTheResidentPageAndGrantedWritable) {
  PagerRig rig(3);
  start(rig);
  rig.give(alice, 4);
  const Ticket ticket = rig.make_private(alice, 4);
  EXPECT_EQ(rig.all<CreateFrame>().front().page.table, copies);
  rig.create();
  ASSERT_TRUE(rig.has<CopyFrame>());
  EXPECT_EQ(rig.all<CopyFrame>().front().from, FrameId{100});
  EXPECT_EQ(rig.all<CopyFrame>().front().to, FrameId{101});
  EXPECT_FALSE(rig.has<Grant>());
  rig.fill();
  ASSERT_TRUE(rig.has<Grant>());
  EXPECT_EQ(rig.all<Grant>().front().page, (PageKey{copies, 4}));
  EXPECT_TRUE(rig.all<Grant>().front().writable);
  EXPECT_TRUE(rig.done(ticket));
  // The shared page is hers until she releases it.
  EXPECT_FALSE(rig.has<Revoke>());
}

TEST(PagerPrivate, AnAbsentOriginIsLoadedFirst) {
  PagerRig rig(3);
  start(rig);
  const Ticket ticket = rig.make_private(alice, 4);
  EXPECT_EQ(rig.all<CreateFrame>().front().page.table, weights);
  rig.create();
  rig.fill();
  ASSERT_EQ(rig.all<CreateFrame>().size(), 1u);
  EXPECT_EQ(rig.all<CreateFrame>().front().page.table, copies);
  rig.create();
  rig.fill();
  EXPECT_TRUE(rig.done(ticket));
}

TEST(PagerPrivate, TheOriginIsNoVictimWhileItIsCopied) {
  PagerRig rig(2);
  start(rig);
  rig.give(alice, 4);
  rig.acked(alice, 4);
  rig.make_private(alice, 4);
  rig.create();
  ASSERT_TRUE(rig.has<CopyFrame>());
  rig.fault(bob, 1);
  EXPECT_FALSE(rig.has<Evicted>());
  rig.step(FenceReached{.page = {copies, 4}, .generation = Generation{1}});
  EXPECT_TRUE(rig.has<Evicted>());
  EXPECT_EQ(rig.residency(4), Residency::absent);
}

TEST(PagerPrivate, TheQuotaOfPrivateFramesIsKept) {
  PagerRig rig(8);
  start(rig, 2);
  rig.give(alice, 0, 1, scratch);
  const Ticket two = rig.fault(alice, 1, 2, scratch);
  EXPECT_TRUE(rig.offloaded(two));
  EXPECT_EQ(rig.answer(two)->reason, FailureKind::quota);
  rig.settle();
  const Ticket copy = rig.make_private(alice, 0);
  EXPECT_EQ(rig.answer(copy)->reason, FailureKind::quota);
  EXPECT_TRUE(rig.offloaded(copy));
}

TEST(PagerPrivate, PrivateFramesGoWithTheirSession) {
  PagerRig rig(8);
  start(rig);
  rig.give(alice, 0, 2, scratch);
  rig.give(alice, 4);
  rig.make_private(alice, 4);
  rig.create();
  rig.step(SessionClosed{.session = alice});
  // The copy is still being written to.
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 2u);
  rig.fill();
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 3u);
  EXPECT_EQ(rig.counts().private_frames, 0u);
  EXPECT_EQ(rig.counts().used_frames, 1u);
  EXPECT_EQ(rig.residency(4), Residency::resident);
  rig.step(TableClosed{.table = scratch});  // It has gone already.
}

TEST(PagerPrivate, AFaultOnAnOverlayIsRefused) {
  PagerRig rig(8);
  start(rig);
  EXPECT_EQ(rig.answer(rig.fault(alice, 0, 1, copies))->reason, FailureKind::invalid_argument);
}

TEST(PagerPrivate, AFailedCopyIsTriedOnceMore) {
  PagerRig rig(8);
  start(rig);
  rig.give(alice, 4);
  const Ticket ticket = rig.make_private(alice, 4);
  rig.create();
  rig.clear();
  rig.step(FenceReached{.page = {copies, 4}, .generation = Generation{1}, .ok = false});
  EXPECT_FALSE(rig.answer(ticket).has_value());
  rig.create();
  rig.step(FenceReached{.page = {copies, 4}, .generation = Generation{2}, .ok = false});
  ASSERT_TRUE(rig.answer(ticket).has_value());
  EXPECT_EQ(rig.answer(ticket)->reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.counts().used_frames, 1u);
}

}  // namespace
}  // namespace penstock::test
