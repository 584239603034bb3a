// SPDX-License-Identifier: Apache-2.0
// Sessions and tables end, and leave nothing.
#include "tests/unit/core_pager/pager_rig.hpp"

namespace penstock::test {
namespace {

TEST(PagerSession, AClosedSessionsTicketsAreCancelledOnce) {
  PagerRig rig(2);
  rig.start({alice, bob}, 8);
  rig.give(bob, 0, 2);
  const Ticket loading = rig.fault(alice, 2);
  const Ticket waiting = rig.fault(alice, 3);
  const Ticket here = rig.fault(alice, 0);
  EXPECT_TRUE(rig.done(here));
  rig.step(SessionClosed{.session = alice});
  for (const Ticket ticket : {loading, waiting}) {
    ASSERT_TRUE(rig.answer(ticket).has_value());
    EXPECT_EQ(rig.answer(ticket)->result, TicketResult::cancelled);
  }
  EXPECT_TRUE(rig.done(here));
}

TEST(PagerSession, SharedPagesStayWhenASessionGoes) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 2);
  rig.step(SessionClosed{.session = alice});
  EXPECT_EQ(rig.core().resident_frames(weights), 2u);
  EXPECT_FALSE(rig.has<DestroyFrame>());
}

TEST(PagerSession, MessagesOfAClosedSessionAreIgnored) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  rig.step(SessionClosed{.session = alice});
  rig.step(Granted{.session = alice, .batch = 1});
  rig.step(Acked{.session = alice, .page = {weights, 0}, .generation = Generation{1}});
  rig.step(Busy{.session = alice, .page = {weights, 0}, .generation = Generation{1}});
  rig.step(Idle{.session = alice, .page = {weights, 0}});
  rig.step(Release{.session = alice, .page = {weights, 0}, .generation = Generation{1}});
  rig.step(SetCutoff{.session = alice, .table = weights, .pages = 0});
  rig.step(TableDetached{.session = alice, .table = weights});
  rig.step(SessionClosed{.session = alice});
  EXPECT_TRUE(rig.commands().empty());
}

TEST(PagerSession, ItIsToldWhetherSeveralHaveAPage) {
  PagerRig rig(4);
  rig.start({alice, bob, carol}, 8);
  const auto told = [&rig] {
    std::vector<std::pair<std::uint32_t, bool>> changes;
    for (const SharingChanged& one : rig.all<SharingChanged>())
      changes.emplace_back(one.page.index, one.several);
    rig.clear();
    return changes;
  };
  using Changes = std::vector<std::pair<std::uint32_t, bool>>;
  rig.give(alice, 0, 2);
  rig.fault(bob, 1);
  EXPECT_EQ(told(), (Changes{{1, true}}));
  rig.fault(carol, 1);
  EXPECT_EQ(told(), Changes{});
  rig.step(TableDetached{.session = alice, .table = weights});
  EXPECT_EQ(told(), Changes{});
  rig.step(SessionClosed{.session = carol});
  EXPECT_EQ(told(), (Changes{{1, false}}));
}

TEST(PagerSession, ADetachedTableIsUnmapped) {
  PagerRig rig(1);
  rig.start({alice, bob}, 8);
  rig.give(alice, 0);
  const Ticket ticket = rig.fault(bob, 1);
  const Ticket own = rig.fault(alice, 2);
  rig.step(TableDetached{.session = alice, .table = weights});
  EXPECT_EQ(rig.answer(own)->result, TicketResult::cancelled);
  EXPECT_EQ(rig.residency(0), Residency::absent);
  rig.settle();
  EXPECT_TRUE(rig.done(ticket));
  rig.attach(alice, weights);
  rig.step(Release{.session = alice, .page = {weights, 1}, .generation = Generation{1}});
  EXPECT_EQ(rig.residency(1), Residency::resident);
}

TEST(PagerSession, ABatchUnderWayIsStillAcknowledgedAfterItsTableWasClosed) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.open_table(others, 4);
  rig.attach(alice, others);
  rig.fault(alice, 0);
  rig.create();
  rig.fill();
  rig.step(TableDetached{.session = alice, .table = weights});
  const Ticket next = rig.fault(alice, 0, 1, others);
  rig.create();
  rig.fill();
  EXPECT_FALSE(rig.answer(next).has_value());
  rig.step(Granted{.session = alice, .batch = 1});
  EXPECT_TRUE(rig.done(next));
}

TEST(PagerTable, AClosedTableGivesItsFramesBackAndCancelsItsLoads) {
  PagerRig rig(4);
  rig.start({alice}, 8);
  rig.give(alice, 0, 2);
  const Ticket prefetch = rig.prefetch(4, 2);
  for (const CreateFrame& create : rig.take_all<CreateFrame>()) {
    if (create.page.index == 4) rig.step(Created{.page = create.page, .frame = FrameId{900}});
  }
  rig.step(TableDetached{.session = alice, .table = weights});
  rig.step(TableClosed{.table = weights});
  EXPECT_EQ(rig.answer(prefetch)->result, TicketResult::cancelled);
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 2u);
  EXPECT_EQ(rig.pages<CancelLoad>(), Pages{4});
  rig.step(Loaded{
      .page = {weights, 4}, .generation = Generation{1}, .ok = false, .reason = FailureKind::cancelled});
  rig.step(Created{.page = {weights, 5}, .frame = FrameId{901}});
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 4u);
  EXPECT_EQ(rig.counts().used_frames, 0u);
}

TEST(PagerTable, ALargeTableClosesThroughASmallBuffer) {
  PagerRig rig(2000);
  rig.open_table(weights, 2000);
  rig.prefetch(0, 2000);
  while (rig.has<CreateFrame>()) {
    const std::vector<CreateFrame> creations = rig.take_all<CreateFrame>();
    for (const CreateFrame& create : creations) {
      rig.step(Created{.page = create.page, .frame = FrameId{create.page.index}});
    }
    for (const Load& load : rig.take_all<Load>()) {
      rig.step(Loaded{.page = load.page, .generation = load.generation, .ok = true});
    }
  }
  rig.clear();
  rig.step(TableClosed{.table = weights});
  EXPECT_EQ(rig.all<DestroyFrame>().size(), 2000u);
  EXPECT_EQ(rig.counts().used_frames, 0u);
}

TEST(PagerTable, CommandsThatDoNotFitComeLaterAndInOrder) {
  PagerCore core({.budget_frames = 400}, std::make_unique<SimpleEviction>());
  CommandBuffer buffer(command_buffer_min);
  const auto step = [&](const Event& event) {
    buffer.clear();
    return core.step(event, Nanoseconds{}, buffer);
  };
  step(SessionOpened{.session = alice});
  step(TableOpened{.table = scratch, .kind = TableKind::anonymous, .pages = 400, .owner = alice});
  step(TableAttached{.session = alice, .table = scratch});
  std::uint32_t created = 0;
  for (bool more =
           step(Fault{.ticket = Ticket{1}, .session = alice, .table = scratch, .first = 0, .count = 400});
       ; more = step(Continue{})) {
    EXPECT_LE(buffer.commands().size(), command_buffer_min);
    for (const Command& command : buffer.commands())
      EXPECT_EQ(std::get<CreateFrame>(command).page.index, created++);
    if (!more) break;
  }
  EXPECT_EQ(created, 400u);
}

}  // namespace
}  // namespace penstock::test
