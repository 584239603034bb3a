// SPDX-License-Identifier: Apache-2.0
// Requests of the service thread, and the end.
#include <gtest/gtest.h>

#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

RequestDone only(const std::vector<RequestDone>& done) {
  EXPECT_EQ(done.size(), 1u);
  return done.empty() ? RequestDone{} : done[0];
}

TEST(PagerService, LoadsATableAndTellsWhatWasRead) {
  PagerRig rig;
  const std::uint64_t bytes = 3 * frame + 1000;
  rig.open_file(1, bytes);
  rig.mail(mail::LoadTable{.request = RequestId{3}, .table = TableId{1}});
  rig.settle();
  const RequestDone done = only(rig.take_news<RequestDone>());
  EXPECT_EQ(done.request, RequestId{3});
  EXPECT_EQ(done.result, TicketResult::done);
  EXPECT_EQ(done.bytes, bytes);
  EXPECT_EQ(done.direct_bytes + done.cached_bytes, bytes);
  EXPECT_EQ(rig.stats.resident_bytes.load(), 4 * frame);
  // The second time there is nothing to read.
  rig.mail(mail::LoadTable{.request = RequestId{4}, .table = TableId{1}});
  rig.settle();
  const RequestDone again = only(rig.take_news<RequestDone>());
  EXPECT_EQ(again.direct_bytes + again.cached_bytes, 0u);
}

TEST(PagerService, SaysWhyALoadIsNotWhole) {
  PagerRig rig;
  rig.open_file(1, 4 * frame);
  rig.open_file(2, 2 * frame);
  rig.mail(mail::ChangeBudget{.request = {}, .bytes = 3 * frame});
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{1}});
  rig.settle();
  const RequestDone done = only(rig.take_news<RequestDone>());
  EXPECT_EQ(done.result, TicketResult::done);
  EXPECT_EQ(done.bytes, 3 * frame);
  EXPECT_EQ(done.reason, FailureKind::never_fits);
  rig.mail(mail::ChangeBudget{.request = {}, .bytes = 8 * frame});
  rig.mail(mail::LoadTable{.request = RequestId{2}, .table = TableId{2}});
  rig.settle();
  EXPECT_EQ(only(rig.take_news<RequestDone>()).reason, FailureKind::internal) << "it is whole";
}

TEST(PagerService, RefusesToLoadWhatIsNotThere) {
  PagerRig rig;
  rig.open_file(1, 2 * frame);
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{9}});
  rig.mail(mail::LoadTable{.request = RequestId{2}, .table = TableId{1}, .first = 1, .count = 2});
  rig.settle();
  const std::vector<RequestDone> done = rig.take_news<RequestDone>();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].reason, FailureKind::not_found);
  EXPECT_EQ(done[1].reason, FailureKind::invalid_argument);
}

TEST(PagerService, EvictsWhatItIsAskedTo) {
  PagerRig rig;
  rig.open_file(1, 4 * frame);
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{1}});
  rig.settle();
  rig.take_news<RequestDone>();
  rig.mail(mail::EvictTable{.request = RequestId{2}, .table = TableId{1}, .bytes = frame + 1});
  rig.settle();
  EXPECT_EQ(only(rig.take_news<RequestDone>()).bytes, 2 * frame);
  rig.mail(mail::EvictTable{.request = RequestId{3}, .any_table = true});
  rig.settle();
  EXPECT_EQ(only(rig.take_news<RequestDone>()).bytes, 2 * frame);
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
}

TEST(PagerService, FollowsItsBudget) {
  PagerRig rig;
  rig.open_file(1, 8 * frame);
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{1}});
  rig.settle();
  rig.mail(mail::ChangeBudget{.request = RequestId{2}, .bytes = 3 * frame + 5});
  rig.settle();
  EXPECT_EQ(rig.take_news<RequestDone>().back().result, TicketResult::done);
  EXPECT_EQ(rig.stats.used_bytes.load(), 3 * frame);
  EXPECT_EQ(rig.stats.budget_bytes.load(), 3 * frame);
  EXPECT_EQ(rig.stats.capacity_bytes.load(), 64 * frame);
}

TEST(PagerService, DoesNotCloseATableThatSomebodyUses) {
  PagerRig rig;
  rig.start(frame);
  rig.mail(mail::CloseTable{.request = RequestId{1}, .table = TableId{1}});
  rig.settle();
  EXPECT_EQ(only(rig.take_news<RequestDone>()).reason, FailureKind::busy);
  rig.mail(mail::DetachTable{.session = SessionId{1}, .table = TableId{1}});
  rig.mail(mail::CloseTable{.request = RequestId{2}, .table = TableId{1}});
  rig.settle();
  EXPECT_EQ(only(rig.take_news<RequestDone>()).result, TicketResult::done);
  EXPECT_EQ(rig.stats.tables.load(), 0u);
}

TEST(PagerService, KeepsAnswersWhileTheServiceDoesNotListen) {
  PagerRig rig({.news_messages = 2});
  for (std::uint64_t request = 1; request <= 5; ++request) {
    rig.mail(mail::LoadTable{.request = RequestId{request}, .table = TableId{9}});
  }
  rig.turn();
  EXPECT_EQ(rig.take_news<RequestDone>().size(), 2u);
  EXPECT_LE(*rig.pager->next_deadline(), rig.now + std::chrono::milliseconds(5));
  rig.turn();
  EXPECT_EQ(rig.take_news<RequestDone>().size(), 2u);
  rig.turn();
  EXPECT_EQ(rig.take_news<RequestDone>().size(), 1u);
}

TEST(PagerService, StopsInTheMiddleOfALoad) {
  PagerRig rig;
  ScriptedPort* client = rig.start(8 * frame);
  rig.reader->hold();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 4});
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{1}});
  rig.settle();
  rig.mail(mail::Stop{});
  rig.settle();
  EXPECT_TRUE(rig.pager->stopped());
  EXPECT_FALSE(rig.pager->loads_left());
  const PeerCompletion cancelled = client->take<PeerCompletion>();
  EXPECT_EQ(cancelled.reason, FailureKind::closing);
  client->take<SentClosing>();
  EXPECT_EQ(only(rig.take_news<RequestDone>()).reason, FailureKind::closing);
  const std::vector<PagerStopped> stopped = rig.take_news<PagerStopped>();
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0].stuck_on, "");
}

TEST(PagerService, WaitsUntilTheServiceHasHeardThatItStopped) {
  PagerRig rig({.news_messages = 1});
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{9}});
  rig.mail(mail::Stop{});
  rig.settle();
  EXPECT_FALSE(rig.pager->stopped());
  EXPECT_EQ(rig.take_news<RequestDone>().size(), 1u);
  rig.turn();
  EXPECT_TRUE(rig.pager->stopped());
  EXPECT_EQ(rig.take_news<PagerStopped>().size(), 1u);
}

TEST(PagerService, StopsAtItsDeadlineAlthoughTheServiceDoesNotListen) {
  PagerRig rig({.news_messages = 1});
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{9}});
  rig.mail(mail::Stop{});
  rig.settle();
  rig.advance(std::chrono::seconds(5));
  rig.turn();
  EXPECT_TRUE(rig.pager->stopped());
}

TEST(PagerService, NamesTheReadThatDoesNotEnd) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.reader->hold();
  rig.reader->ignore_cancels();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  rig.mail(mail::Stop{});
  rig.settle();
  EXPECT_FALSE(rig.pager->stopped());
  EXPECT_TRUE(rig.pager->next_deadline().has_value());
  rig.advance(std::chrono::seconds(5));
  rig.settle();
  EXPECT_TRUE(rig.pager->stopped());
  EXPECT_TRUE(rig.pager->loads_left());
  const std::vector<PagerStopped> stopped = rig.take_news<PagerStopped>();
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_NE(stopped[0].stuck_on.find("a read of 16384 bytes at 0"), std::string::npos) << stopped[0].stuck_on;
  rig.reader->release();  // So that the stream can end.
}

TEST(PagerService, RefusesRequestsWhileItStops) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.reader->hold();
  rig.reader->ignore_cancels();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  rig.mail(mail::Stop{});
  client->say(PeerFault{.request = 2, .table = 1, .first = 0, .count = 1});
  rig.mail(mail::LoadTable{.request = RequestId{1}, .table = TableId{1}});
  ScriptedPort* late = rig.open_session(2);
  static_cast<void>(late);
  rig.settle();
  EXPECT_EQ(client->take<PeerCompletion>().request, 1u);
  client->take<SentClosing>();
  const PeerCompletion refused = client->take<PeerCompletion>();
  EXPECT_EQ(refused.request, 2u);
  EXPECT_EQ(refused.reason, FailureKind::closing);
  EXPECT_EQ(only(rig.take_news<RequestDone>()).reason, FailureKind::closing);
  EXPECT_EQ(rig.take_news<PeerGone>().at(0).reason, FailureKind::closing);
  rig.reader->release();
}

}  // namespace
}  // namespace penstock::test
