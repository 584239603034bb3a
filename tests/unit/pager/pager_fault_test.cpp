// SPDX-License-Identifier: Apache-2.0
// What a client gets for its requests.
#include <cerrno>

#include <gtest/gtest.h>

#include "tests/unit/pager/load_rig.hpp"
#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

std::uint8_t code(TicketResult result) { return static_cast<std::uint8_t>(result); }

TEST(Pager, GrantsAFaultWithTheBytesOfTheFileAndItsCompletion) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame + 100);
  client->say(PeerFault{.request = 5, .table = 1, .first = 2, .count = 1});
  rig.settle();
  const SentGrants grants = client->take<SentGrants>();
  EXPECT_EQ(grants.batch, 1u);
  ASSERT_EQ(grants.pages.size(), 1u);
  EXPECT_EQ(grants.pages[0].table, 1u);
  EXPECT_EQ(grants.pages[0].page, 2u);
  EXPECT_FALSE(grants.pages[0].writable);
  EXPECT_EQ(rig.content(grants.pages[0]), expected_bytes(2 * frame, frame, 2 * frame + 100));
  ASSERT_TRUE(grants.completes.has_value());
  EXPECT_EQ(grants.completes->request, 5u);
  EXPECT_EQ(grants.completes->result, code(TicketResult::done));
  EXPECT_EQ(client->sent_count(), 0u);
  EXPECT_EQ(rig.residency(1, 2), Residency::resident);
}

TEST(Pager, GrantsAResidentPageInTheTurnOfTheFault) {
  PagerRig rig;
  ScriptedPort* first = rig.start(frame);
  first->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  ScriptedPort* second = rig.open_session(2);
  rig.attach(2, 1, 1);
  rig.settle();
  second->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  const SessionId id{2};
  rig.pager->turn(rig.now, {.mail = false, .device = false, .reads = false, .readable = {&id, 1}});
  EXPECT_EQ(second->take<SentGrants>().pages.size(), 1u);
}

TEST(Pager, LoadsAPageOnceForTwoSessions) {
  PagerRig rig;
  ScriptedPort* first = rig.start(frame);
  ScriptedPort* second = rig.open_session(2);
  rig.attach(2, 1, 1);
  rig.reader->hold();
  first->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  second->say(PeerFault{.request = 2, .table = 1, .first = 0, .count = 1});
  rig.settle();
  rig.reader->release();
  rig.settle();
  const SentGrants to_first = first->take<SentGrants>(), to_second = second->take<SentGrants>();
  EXPECT_EQ(rig.content(to_first.pages.at(0)), rig.content(to_second.pages.at(0)));
  std::uint64_t bytes = 0;
  for (const ReadOp& read : rig.reader->history()) bytes += read.extent.length;
  EXPECT_EQ(bytes, frame);
}

TEST(Pager, SendsALongRangeInBatchesOneAtATime) {
  const std::uint32_t pages = grant_batch_pages + 10;
  PagerRig rig({.device = {.frames = pages}});
  ScriptedPort* client = rig.start(pages * frame);
  client->say(PeerFault{.request = 3, .table = 1, .first = 0, .count = pages});
  rig.settle();
  std::uint32_t granted = 0;
  for (std::uint32_t batch = 1; granted < pages; ++batch) {
    const SentGrants grants = client->take<SentGrants>();
    EXPECT_EQ(client->sent_count(), 0u) << "a batch before the last one was acknowledged";
    EXPECT_EQ(grants.batch, batch);
    granted += static_cast<std::uint32_t>(grants.pages.size());
    EXPECT_EQ(grants.completes.has_value(), granted == pages);
    client->say(PeerGranted{.batch = batch});
    rig.settle();
  }
}

TEST(Pager, GrantsAnonymousPagesZeroAndWritable) {
  PagerRig rig;
  ScriptedPort* client = rig.open_session(1);
  rig.open_private(9, TableKind::anonymous, 4, 1);
  rig.attach(1, 9, 4);
  rig.settle();
  client->say(PeerFault{.request = 1, .table = 9, .first = 1, .count = 1});
  rig.settle();
  const SentGrants grants = client->take<SentGrants>();
  ASSERT_EQ(grants.pages.size(), 1u);
  EXPECT_TRUE(grants.pages[0].writable);
  EXPECT_EQ(rig.content(grants.pages[0]), std::vector<std::byte>(frame));
}

TEST(Pager, MakesAPrivateCopyInTheOverlay) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  rig.open_private(2, TableKind::overlay, 2, 1, 1);
  rig.attach(1, 2, 2);
  client->say(PeerMakePrivate{.request = 8, .table = 1, .first = 1, .count = 1});
  rig.settle();
  const SentGrants grants = client->take<SentGrants>();
  ASSERT_EQ(grants.pages.size(), 1u);
  EXPECT_EQ(grants.pages[0].table, 2u);
  EXPECT_EQ(grants.pages[0].page, 1u);
  EXPECT_TRUE(grants.pages[0].writable);
  EXPECT_EQ(rig.content(grants.pages[0]), expected_bytes(frame, frame, 2 * frame));
  EXPECT_EQ(grants.completes->request, 8u);
  EXPECT_EQ(rig.residency(2, 1), Residency::resident);
}

// Without a loss of the writer, and once more before anybody is told.
TEST(Pager, TriesAPrivateCopyThatFailedOnceMore) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.open_private(2, TableKind::overlay, 1, 1, 1);
  rig.attach(1, 2, 2);
  rig.checked.fail_next_copy_of_a_frame({Errc::exhausted, 2, "a driver"});
  client->say(PeerMakePrivate{.request = 8, .table = 1, .first = 0, .count = 1});
  rig.settle();
  const SentGrants grants = client->take<SentGrants>();
  ASSERT_EQ(grants.pages.size(), 1u);
  EXPECT_EQ(rig.content(grants.pages[0]), expected_bytes(0, frame, frame));
  EXPECT_EQ(rig.checked.copies(), 2u);
  EXPECT_EQ(rig.stats.writer_losses, 0u);
  EXPECT_EQ(rig.stats.condition, DeviceCondition::ready);
}

TEST(Pager, RefusesAPrivateCopyWithoutAnOverlay) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  client->say(PeerMakePrivate{.request = 8, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_EQ(client->take<PeerCompletion>().reason, FailureKind::invalid_argument);
}

TEST(Pager, FailsAFaultWhosePageCannotBeRead) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  rig.reader->answer_next(-EIO);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  const PeerCompletion failed = client->take<PeerCompletion>();
  EXPECT_EQ(failed.result, code(TicketResult::failed));
  EXPECT_EQ(failed.reason, FailureKind::io_error);
  bool logged = false;
  for (const PagerDecision& decision : rig.take_news<PagerDecision>()) {
    logged |=
        decision.kind == PagerDecision::Kind::io_error && decision.detail.find("EIO") != std::string::npos;
  }
  EXPECT_TRUE(logged);
  client->say(PeerFault{.request = 2, .table = 1, .first = 1, .count = 1});
  rig.settle();
  EXPECT_EQ(client->take<SentGrants>().completes->result, code(TicketResult::done));
}

TEST(Pager, CompletesACancelledFaultOnce) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.reader->hold();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  client->say(PeerCancel{.request = 1});
  client->say(PeerCancel{.request = 1});
  client->say(PeerCancel{.request = 99});
  rig.settle();
  const PeerCompletion cancelled = client->take<PeerCompletion>();
  EXPECT_EQ(cancelled.request, 1u);
  EXPECT_EQ(cancelled.result, code(TicketResult::cancelled));
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(client->sent_count(), 0u);
}

TEST(Pager, CompletesAPrefetchWithoutGrantingAnything) {
  PagerRig rig;
  ScriptedPort* client = rig.start(3 * frame);
  client->say(PeerPrefetch{.request = 4, .table = 1, .first = 0, .count = 3});
  rig.settle();
  const PeerCompletion done = client->take<PeerCompletion>();
  EXPECT_EQ(done.result, code(TicketResult::done));
  EXPECT_EQ(done.frames, 3u);
  EXPECT_EQ(client->sent_count(), 0u);
}

TEST(Pager, TellsHowMuchAReleaseGaveBack) {
  PagerRig rig;
  ScriptedPort* client = rig.open_session(1);
  rig.open_private(9, TableKind::anonymous, 1, 1);
  rig.attach(1, 9, 1);
  client->say(PeerFault{.request = 1, .table = 9, .first = 0, .count = 1});
  rig.settle();
  const SentGrants grants = client->take<SentGrants>();
  client->say(PeerGranted{.batch = 1});
  client->say(PeerRelease{.request = 2,
                          .table = 9,
                          .page = 0,
                          .generation = grants.pages.at(0).generation,
                          .drop_if_last = false});
  rig.settle();
  const PeerCompletion released = client->take<PeerCompletion>();
  EXPECT_EQ(released.request, 2u);
  EXPECT_EQ(released.released_bytes, frame);
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
}

TEST(Pager, TellsThatNoDescriptorWasLeft) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  client->say(PeerPrefetch{.request = 1, .table = 1, .first = 0, .count = 2});
  rig.settle();
  client->take<PeerCompletion>();
  rig.device.fail_shares(1);
  client->say(PeerFault{.request = 2, .table = 1, .first = 0, .count = 1});
  rig.settle();
  const PeerCompletion failed = client->take<PeerCompletion>();
  EXPECT_EQ(failed.result, code(TicketResult::failed));
  EXPECT_EQ(failed.reason, FailureKind::fd_limit);
  // The session is not left with a batch that nobody will acknowledge.
  client->say(PeerFault{.request = 3, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_EQ(client->take<SentGrants>().completes->request, 3u);
}

TEST(Pager, CountsTheTimeOfAFaultUntilItsGrantHasLeft) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.reader->hold();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.turn();
  EXPECT_FALSE(rig.pager->has_unsettled());
  rig.advance(std::chrono::milliseconds(3));
  rig.reader->release();
  rig.settle();
  ASSERT_TRUE(rig.pager->has_unsettled());
  rig.pager->settle(rig.now);
  EXPECT_FALSE(rig.pager->has_unsettled());
  EXPECT_EQ(rig.stats.fault_latency[12].load(), 1u);  // 2,048 to 4,096 microseconds.
  EXPECT_GE(rig.stats.fault_latency_sum_ns.load(), 3'000'000u);
}

}  // namespace
}  // namespace penstock::test
