// SPDX-License-Identifier: Apache-2.0
// Clients that misbehave, are slow, or are late.
#include <gtest/gtest.h>

#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

class BadMessage : public ::testing::TestWithParam<PeerMessage> {};

TEST_P(BadMessage, EndsItsSessionAndNoOther) {
  PagerRig rig;
  ScriptedPort* good = rig.start(2 * frame);
  ScriptedPort* bad = rig.open_session(2);
  rig.attach(2, 1, 2);
  rig.open_file(3, frame);  // Not attached to anybody.
  rig.settle();
  bad->say(GetParam());
  rig.settle();
  const std::vector<PeerGone> gone = rig.take_news<PeerGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].session, SessionId{2});
  EXPECT_EQ(gone[0].reason, FailureKind::protocol_violation);
  EXPECT_FALSE(rig.watch.writable.contains(SessionId{2}));
  good->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_EQ(good->take<SentGrants>().pages.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadMessage,
    ::testing::Values(PeerFault{.request = 1, .table = 77, .first = 0, .count = 1},
                      PeerFault{.request = 1, .table = 3, .first = 0, .count = 1},
                      PeerFault{.request = 1, .table = 1, .first = 2, .count = 1},
                      PeerFault{.request = 1, .table = 1, .first = 1, .count = 0xffffffff},
                      PeerPrefetch{.request = 1, .table = 1, .first = 0xffffffff, .count = 2},
                      PeerMakePrivate{.request = 1, .table = 1, .first = 0, .count = 3},
                      PeerGranted{.batch = 1}, PeerAcked{.table = 1, .page = 2, .generation = 1},
                      PeerBusy{.table = 5, .page = 0, .generation = 1, .later = true},
                      PeerIdle{.table = 1, .page = 0xffffffff},
                      PeerRelease{.request = 1, .table = 1, .page = 9, .generation = 1, .drop_if_last = true},
                      PeerPrioritize{.table = 0}, PeerCutoff{.table = 2, .pages = 1}));

TEST(PagerSession, TakesTheAcknowledgementThatAMessageCarriesFirst) {
  PagerRig rig;
  ScriptedPort* client = rig.start(3 * frame);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_EQ(client->take<SentGrants>().batch, 1u);
  client->say(PeerFault{.request = 2, .table = 1, .first = 1, .count = 1}, 1);
  rig.settle();
  EXPECT_EQ(client->take<SentGrants>().batch, 2u);
  client->say(PeerFault{.request = 3, .table = 1, .first = 2, .count = 1});
  rig.settle();
  EXPECT_EQ(client->sent_count(), 0u) << "a batch before the last one was acknowledged";
  client->say(PeerPrioritize{.table = 1}, 2);
  rig.settle();
  EXPECT_EQ(client->take<SentGrants>().batch, 3u);
}

TEST(PagerSession, CallsACarriedAcknowledgementOfAnotherBatchAViolation) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1}, 1);
  rig.settle();
  EXPECT_EQ(rig.take_news<PeerGone>().at(0).reason, FailureKind::protocol_violation);
  EXPECT_EQ(client->sent_count(), 0u) << "what came with it doesn't count";
}

TEST(PagerSession, CallsAReleaseOfAPageThatHasNotLeftAViolation) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  client->refuse_sends(Errc::busy);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  // Its frame must be there when the batch leaves at last.
  client->say(PeerRelease{.request = 0, .table = 1, .page = 0, .generation = 1, .drop_if_last = true});
  rig.settle();
  EXPECT_EQ(rig.take_news<PeerGone>().at(0).reason, FailureKind::protocol_violation);
  EXPECT_EQ(rig.checked.frames_alive(), 1u);
}

TEST(PagerSession, SurvivesAnswersAboutPagesThatWereNeverGranted) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  client->say(PeerAcked{.table = 1, .page = 0, .generation = 12});
  client->say(PeerBusy{.table = 1, .page = 1, .generation = 0, .later = true});
  client->say(PeerIdle{.table = 1, .page = 1});
  client->say(PeerRelease{.request = 4, .table = 1, .page = 1, .generation = 3, .drop_if_last = true});
  rig.settle();
  EXPECT_EQ(client->take<PeerCompletion>().released_bytes, 0u);
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
  rig.pager->core().verify();
}

TEST(PagerSession, IgnoresLateMessagesAboutATableThatItHad) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.mail(mail::DetachTable{.session = SessionId{1}, .table = TableId{1}});
  rig.settle();
  client->say(PeerAcked{.table = 1, .page = 0, .generation = 1});
  client->say(PeerIdle{.table = 1, .page = 0});
  client->say(PeerPrioritize{.table = 1});
  client->say(PeerFault{.request = 7, .table = 1, .first = 0, .count = 1});
  rig.settle();
  const PeerCompletion refused = client->take<PeerCompletion>();
  EXPECT_EQ(refused.request, 7u);
  EXPECT_EQ(refused.reason, FailureKind::not_found);
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
}

TEST(PagerSession, TellsATableThatIsOpenedAgainFromItsFormerSelf) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  const SentGrants before = client->take<SentGrants>();
  ASSERT_EQ(before.pages.size(), 1u);
  client->say(PeerGranted{.batch = before.batch});
  rig.settle();
  rig.mail(mail::DetachTable{.session = SessionId{1}, .table = TableId{1}});
  const auto pins = PinWords::create(1);
  rig.mail(mail::AttachTable{
      .session = SessionId{1}, .table = TableId{1}, .number = TableNumber{2}, .pins = *pins});
  rig.settle();
  client->say(PeerFault{.request = 2, .table = 2, .first = 0, .count = 1});
  rig.settle();
  const SentGrants after = client->take<SentGrants>();
  ASSERT_EQ(after.pages.size(), 1u);
  EXPECT_EQ(after.pages[0].table, 2u);
  client->say(PeerGranted{.batch = after.batch});
  // The frame never went: a late answer about the closed table has the generation of the new grant.
  EXPECT_EQ(after.pages[0].generation, before.pages[0].generation);
  client->say(PeerRelease{
      .request = 0, .table = 1, .page = 0, .generation = before.pages[0].generation, .drop_if_last = false});
  client->say(PeerFault{.request = 3, .table = 2, .first = 0, .count = 1});
  rig.settle();
  EXPECT_EQ(client->take<PeerCompletion>().request, 3u);  // Still granted, so not granted twice.
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
  rig.pager->core().verify();
}

TEST(PagerSession, HearsOfATableThatWasAttachedWhileItReads) {
  PagerRig rig;
  ScriptedPort* client = rig.open_session(1);
  rig.open_file(1, frame);
  rig.settle();
  // The attach lies in the mailbox, and the turn was woken by the socket alone.
  rig.attach(1, 1, 1);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  const SessionId id{1};
  rig.pager->turn(rig.now, {.mail = false, .device = false, .reads = false, .readable = {&id, 1}});
  rig.settle();
  EXPECT_EQ(client->take<SentGrants>().pages.size(), 1u);
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
}

TEST(PagerSession, TellsTheServiceOfAHangUpOnce) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  client->hang_up();
  rig.settle();
  const std::vector<PeerGone> gone = rig.take_news<PeerGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].reason, FailureKind::disconnected);
  rig.mail(mail::CloseSession{.session = SessionId{1}});
  rig.settle();
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
}

TEST(PagerSession, EndsASessionThatSendsGarbage) {
  PagerRig rig;
  rig.start(frame)->say_garbage();
  rig.settle();
  const std::vector<PeerGone> gone = rig.take_news<PeerGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].reason, FailureKind::protocol_violation);
}

TEST(PagerSession, ReadsAClientInBoundedPortions) {
  PagerRig rig({.pager = {.messages_per_turn = 3}});
  ScriptedPort* client = rig.start(frame);
  for (std::uint64_t request = 1; request <= 7; ++request) {
    client->say(PeerFault{.request = request, .table = 1, .first = 0, .count = 0});
  }
  rig.turn();
  EXPECT_EQ(client->sent_count(), 3u);
  rig.turn();
  EXPECT_EQ(client->sent_count(), 6u);
}

TEST(PagerSession, RefusesMoreRequestsThanMayBeOpen) {
  PagerRig rig({.pager = {.requests_per_session = 2}});
  ScriptedPort* client = rig.start(4 * frame);
  rig.reader->hold();
  for (std::uint32_t page = 0; page < 3; ++page) {
    client->say(PeerFault{.request = page, .table = 1, .first = page, .count = 1});
  }
  rig.settle();
  const PeerCompletion refused = client->take<PeerCompletion>();
  EXPECT_EQ(refused.request, 2u);
  EXPECT_EQ(refused.reason, FailureKind::busy);
  rig.reader->release();
  rig.settle();
  client->take<SentGrants>();
  client->say(PeerGranted{.batch = 1});
  rig.settle();
  client->say(PeerFault{.request = 9, .table = 1, .first = 3, .count = 1});
  rig.settle();
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
}

TEST(PagerSession, WaitsForASocketThatIsFull) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  client->refuse_sends(Errc::busy);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_TRUE(rig.watch.writable.at(SessionId{1}));
  client->refuse_sends(std::nullopt);
  rig.turn();
  EXPECT_EQ(client->take<SentGrants>().pages.size(), 1u);
  EXPECT_FALSE(rig.watch.writable.at(SessionId{1}));
}

TEST(PagerSession, TriesAgainAfterAWhileWhenTooManyDescriptorsAreInFlight) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  client->refuse_sends(Errc::exhausted);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  EXPECT_FALSE(rig.watch.writable.at(SessionId{1}));
  client->refuse_sends(std::nullopt);
  const std::optional<Nanoseconds> due = rig.pager->next_deadline();
  ASSERT_TRUE(due.has_value());
  EXPECT_LE(*due, rig.now + std::chrono::milliseconds(5));
  rig.advance(std::chrono::milliseconds(5));
  rig.turn();
  EXPECT_EQ(client->take<SentGrants>().pages.size(), 1u);
}

TEST(PagerSession, EndsAClientThatAsksAndDoesNotRead) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  client->refuse_sends(Errc::busy);
  for (std::uint64_t request = 0; request < 1'200; ++request) {
    client->say(PeerFault{.request = request, .table = 1, .first = 0, .count = 0});
  }
  for (int round = 0; round < 3; ++round) rig.settle();
  const std::vector<PeerGone> gone = rig.take_news<PeerGone>();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].reason, FailureKind::protocol_violation);
}

TEST(PagerSession, CountsAPinnedPageOnceAndOnlyWhereItWasGranted) {
  PagerRig rig;
  ScriptedPort* first = rig.open_session(1);
  ScriptedPort* second = rig.open_session(2);
  rig.open_file(1, 4 * frame);
  const std::shared_ptr<PinWords> pins = rig.attach(1, 1, 4);
  const std::shared_ptr<PinWords> lies = rig.attach(2, 1, 4);
  first->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 2});
  second->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  const std::uint64_t pinned = pin_state_mapped << pin_state_shift | 3;
  const auto write = [&](const PinWords& words, std::uint32_t page) {
    ASSERT_EQ(::pwrite(words.fd(), &pinned, sizeof pinned, page * sizeof pinned), 8);
  };
  write(*pins, 0);
  write(*lies, 0);
  for (std::uint32_t page = 0; page < 4; ++page) write(*lies, page);  // Of these only page 0 was granted.
  rig.advance(std::chrono::milliseconds(100));
  rig.turn();
  EXPECT_EQ(rig.stats.pinned_bytes.load(), frame);
  rig.mail(mail::CloseSession{.session = SessionId{1}});
  rig.mail(mail::CloseSession{.session = SessionId{2}});
  rig.turn();
  rig.advance(std::chrono::milliseconds(100));
  rig.turn();
  EXPECT_EQ(rig.stats.pinned_bytes.load(), 0u);
}

}  // namespace
}  // namespace penstock::test
