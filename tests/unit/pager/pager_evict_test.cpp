// SPDX-License-Identifier: Apache-2.0
// Paging: a device smaller than what is asked of it.
#include <gtest/gtest.h>

#include "tests/unit/pager/load_rig.hpp"
#include "tests/unit/pager/pager_rig.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = PagerRig::frame;

// A client that maps what it gets and gives back what it is asked for, unless told otherwise.
class Client {
 public:
  Client(PagerRig& rig, ScriptedPort* port, std::uint64_t file_bytes)
      : rig_(rig), port_(port), bytes_(file_bytes) {}

  // Answers everything that was sent; checks every page that comes.
  void react() {
    while (port_->sent_count() > 0) {
      if (std::holds_alternative<SentGrants>(port_->sent().front())) {
        const SentGrants grants = port_->take<SentGrants>();
        for (const SentPage& page : grants.pages) {
          mapped[page.page] = page.generation;
          EXPECT_EQ(rig_.content(page), expected_bytes(page.page * frame, frame, bytes_))
              << "page " << page.page;
        }
        if (grants.completes) completions.push_back(*grants.completes);
        port_->say(PeerGranted{.batch = grants.batch});
      } else if (std::holds_alternative<SentRevoke>(port_->sent().front())) {
        answer(port_->take<SentRevoke>());
      } else {
        completions.push_back(port_->take<PeerCompletion>());
      }
    }
  }
  void answer(const SentRevoke& revoke) {
    ++revokes;
    if (silent) return;
    const auto found = mapped.find(revoke.page);
    if (found == mapped.end() || found->second != revoke.generation) return;
    if (busy) {
      port_->say(PeerBusy{
          .table = revoke.table, .page = revoke.page, .generation = revoke.generation, .later = false});
      return;
    }
    mapped.erase(found);
    port_->say(PeerAcked{.table = revoke.table, .page = revoke.page, .generation = revoke.generation});
  }
  void fault(std::uint32_t page, std::uint32_t count = 1) {
    port_->say(PeerFault{.request = ++last_request, .table = 1, .first = page, .count = count});
    for (int round = 0; round < 10; ++round) {
      rig_.settle();
      react();
    }
  }
  TicketResult last_result() const { return static_cast<TicketResult>(completions.back().result); }

  std::map<std::uint32_t, std::uint64_t> mapped;  // Page -> generation
  std::vector<PeerCompletion> completions;
  std::uint64_t last_request = 0;
  std::uint32_t revokes = 0;
  bool busy = false, silent = false;

 private:
  PagerRig& rig_;
  ScriptedPort* port_;
  std::uint64_t bytes_;
};

TEST(PagerEviction, PagesAFileThroughASmallerDevice) {
  PagerRig rig({.device = {.frames = 4}});
  const std::uint64_t bytes = 10 * frame + 77;
  Client client(rig, rig.start(bytes), bytes);
  for (int sweep = 0; sweep < 3; ++sweep) {
    for (std::uint32_t page = 0; page < 11; ++page) {
      client.fault(page);
      ASSERT_EQ(client.last_result(), TicketResult::done) << "page " << page;
    }
  }
  EXPECT_EQ(client.completions.size(), 33u);
  EXPECT_GT(client.revokes, 20u);
  EXPECT_LE(rig.checked.frames_alive(), 4u);
  EXPECT_GT(rig.stats.evictions[static_cast<std::size_t>(EvictReason::fault)].load(), 20u);
  rig.pager->core().verify();
}

TEST(PagerEviction, KeepsABusyPageAndAnswersOffloadedWhenAllAreBusy) {
  PagerRig rig({.device = {.frames = 2}});
  Client client(rig, rig.start(4 * frame), 4 * frame);
  client.fault(0);
  client.fault(1);
  client.busy = true;
  client.fault(2);
  EXPECT_EQ(client.last_result(), TicketResult::offloaded);
  EXPECT_EQ(client.mapped.size(), 2u);
  EXPECT_EQ(rig.stats.offloaded.load(), 1u);
}

TEST(PagerEviction, TakesAPageAgainOnceItIsIdle) {
  PagerRig rig({.device = {.frames = 2}});
  ScriptedPort* port = rig.start(4 * frame);
  Client client(rig, port, 4 * frame);
  client.fault(0, 2);
  client.busy = true;
  client.fault(2);
  EXPECT_EQ(client.last_result(), TicketResult::offloaded);
  client.busy = false;
  port->say(PeerIdle{.table = 1, .page = 0});
  client.fault(2);
  EXPECT_EQ(client.last_result(), TicketResult::done);
}

TEST(PagerEviction, GoesOnWithoutASilentClient) {
  PagerRig rig({.device = {.frames = 2}});
  ScriptedPort* stopped_port = rig.start(4 * frame);
  Client stopped(rig, stopped_port, 4 * frame);
  ScriptedPort* other_port = rig.open_session(2);
  rig.attach(2, 1, 4);
  rig.settle();
  Client other(rig, other_port, 4 * frame);
  stopped.fault(0);
  other.fault(1);
  stopped.silent = true;
  other.busy = true;  // So that only the silent one could give a page.
  other.fault(2);
  EXPECT_EQ(other.completions.size(), 1u);
  rig.advance(std::chrono::seconds(2));
  const auto let_both_react = [&] {
    for (int round = 0; round < 10; ++round) {
      rig.settle();
      other.react();
      stopped.react();
    }
  };
  let_both_react();
  ASSERT_EQ(other.completions.size(), 2u);
  EXPECT_EQ(other.last_result(), TicketResult::offloaded);
  EXPECT_EQ(rig.stats.stuck_bytes.load(), frame);
  // It speaks again: the answer to the revoke is still wanted.
  stopped.mapped.erase(0);
  stopped_port->say(PeerAcked{.table = 1, .page = 0, .generation = 1});
  let_both_react();
  EXPECT_EQ(rig.stats.stuck_bytes.load(), 0u);
  other.fault(2);
  EXPECT_EQ(other.last_result(), TicketResult::done);
}

TEST(PagerEviction, GivesTheFramesOfAClosedSessionBack) {
  PagerRig rig({.device = {.frames = 2}});
  ScriptedPort* port = rig.open_session(1);
  rig.open_private(9, TableKind::anonymous, 2, 1);
  rig.attach(1, 9, 2);
  port->say(PeerFault{.request = 1, .table = 9, .first = 0, .count = 2});
  rig.settle();
  EXPECT_EQ(rig.checked.frames_alive(), 2u);
  rig.mail(mail::CloseSession{.session = SessionId{1}});
  rig.settle();
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
  EXPECT_TRUE(rig.watch.writable.empty());
  EXPECT_EQ(rig.stats.sessions.load(), 0u);
}

TEST(PagerEviction, DropsTheRequestsOfAClosedSessionAndServesTheOthers) {
  PagerRig rig;
  ScriptedPort* first = rig.start(frame);
  ScriptedPort* second = rig.open_session(2);
  rig.attach(2, 1, 1);
  rig.reader->hold();
  first->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  first->say(PeerPrefetch{.request = 2, .table = 1, .first = 0, .count = 1});
  second->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  rig.mail(mail::CloseSession{.session = SessionId{1}});
  rig.settle();
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(second->take<SentGrants>().completes->request, 1u);
  rig.pager->core().verify();
}

TEST(PagerEviction, DestroysTheFramesOfALoadThatWasCancelledOnlyAfterItsReads) {
  PagerRig rig;
  ScriptedPort* client = rig.start(frame);
  rig.reader->hold();
  rig.reader->ignore_cancels();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  rig.mail(mail::CloseSession{.session = SessionId{1}});
  rig.mail(mail::CloseTable{.request = RequestId{5}, .table = TableId{1}});
  rig.settle();
  EXPECT_EQ(rig.checked.frames_alive(), 1u);
  EXPECT_TRUE(rig.take_news<RequestDone>().empty());
  rig.reader->release();
  rig.settle();
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
  const std::vector<RequestDone> done = rig.take_news<RequestDone>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].request, RequestId{5});
}

TEST(PagerEviction, FailsWhoWaitsWhenTheWriterIsLost) {
  PagerRig rig({.device = {.addressable = false}});
  ScriptedPort* client = rig.start(frame);
  rig.checked.hold_fences();
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  rig.checked.lose_writer();
  for (int round = 0; round < 3; ++round) {
    rig.settle();
    rig.advance(std::chrono::seconds(2));
  }
  const PeerCompletion failed = client->take<PeerCompletion>();
  EXPECT_NE(failed.result, static_cast<std::uint8_t>(TicketResult::done));
  EXPECT_EQ(failed.reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.checked.frames_alive(), 0u);
  EXPECT_EQ(rig.stats.condition, DeviceCondition::recovering);
  rig.pager->core().verify();
}

TEST(PagerEviction, TellsThatTheContentsWereLostThoughTheDeviceWorksAgain) {
  PagerRig rig;
  rig.start(frame);
  rig.settle();
  for (int round = 0; round < 2; ++round) {
    rig.checked.lose_contents();
    rig.settle();
    const auto told = rig.take_news<ConditionChanged>();
    ASSERT_EQ(told.size(), 2u);
    EXPECT_TRUE(told[0].contents_lost);
    EXPECT_EQ(told[0].condition, DeviceCondition::quarantined);
    EXPECT_FALSE(told[1].contents_lost);
    EXPECT_EQ(told[1].condition, DeviceCondition::ready);
  }
}

// Two clients and room for one page; the first has it, and owes the acknowledgement.
struct OwingClient {
  OwingClient() {
    first->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
    rig.settle();
    generation = first->take<SentGrants>().pages.at(0).generation;
    rig.now += std::chrono::seconds(100);
    rig.settle();
    second->say(PeerFault{.request = 1, .table = 1, .first = 1, .count = 1});
    rig.settle();
  }
  PagerRig rig{{.device = {.frames = 1}}};
  ScriptedPort* first = rig.start(2 * frame);
  ScriptedPort* second = rig.open_session(2);
  const bool attached = (rig.attach(2, 1, 2), true);
  std::uint64_t generation = 0;
};

TEST(PagerEviction, AsksAnIdleClientThatOwesAnAcknowledgement) {
  OwingClient owing;
  EXPECT_EQ(owing.first->take<SentRevoke>().generation, owing.generation);
  owing.first->say(PeerAcked{.table = 1, .page = 0, .generation = owing.generation}, 1);
  owing.rig.settle();
  EXPECT_EQ(owing.second->take<SentGrants>().pages.at(0).page, 1u);
  EXPECT_TRUE(owing.rig.take_news<PeerGone>().empty());
  owing.rig.pager->core().verify();
}

TEST(PagerEviction, TakesThePageOfAClientThatDiesOwingAnAcknowledgement) {
  OwingClient owing;
  owing.first->hang_up();
  owing.rig.settle();
  owing.rig.mail(mail::CloseSession{.session = SessionId{1}});
  owing.rig.settle();
  EXPECT_EQ(owing.second->take<SentGrants>().pages.at(0).page, 1u);
  owing.rig.pager->core().verify();
}

TEST(PagerEviction, MakesAPageOfAnOwedBatchPrivate) {
  PagerRig rig;
  ScriptedPort* client = rig.start(2 * frame);
  rig.open_private(2, TableKind::overlay, 2, 1, 1);
  rig.attach(1, 2, 2);
  client->say(PeerFault{.request = 1, .table = 1, .first = 1, .count = 1});
  rig.settle();
  const SentGrants shared = client->take<SentGrants>();
  client->say(PeerMakePrivate{.request = 2, .table = 1, .first = 1, .count = 1}, 1);
  rig.settle();
  const SentGrants made = client->take<SentGrants>();
  EXPECT_EQ(made.batch, 2u);
  EXPECT_EQ(rig.content(made.pages.at(0)), rig.content(shared.pages.at(0)));
  client->say(PeerRelease{.request = 0,
                          .table = 1,
                          .page = 1,
                          .generation = shared.pages.at(0).generation,
                          .drop_if_last = false},
              2);
  rig.settle();
  EXPECT_TRUE(rig.take_news<PeerGone>().empty());
  rig.pager->core().verify();
}

TEST(PagerEviction, GoesOnWithTheNextWriter) {
  PagerRig rig({.device = {.addressable = false}});
  ScriptedPort* client = rig.start(3 * frame);
  client->say(PeerFault{.request = 1, .table = 1, .first = 0, .count = 1});
  rig.settle();
  ASSERT_TRUE(client->take<SentGrants>().completes.has_value());
  client->say(PeerGranted{.batch = 1});
  // Lost with copies queued.
  rig.checked.hold_fences();
  client->say(PeerFault{.request = 2, .table = 1, .first = 1, .count = 2});
  rig.settle();
  rig.checked.lose_writer();
  rig.settle();
  EXPECT_EQ(rig.stats.condition, DeviceCondition::recovering);
  EXPECT_EQ(rig.stats.slots_busy, 0u);
  rig.checked.release_fences();
  rig.checked.replace_writer();
  rig.settle();
  const PeerCompletion failed = client->take<PeerCompletion>();
  EXPECT_EQ(failed.reason, FailureKind::device_unhealthy);
  EXPECT_EQ(rig.stats.condition, DeviceCondition::ready);
  EXPECT_EQ(rig.checked.frames_alive(), 1u);
  client->say(PeerFault{.request = 3, .table = 1, .first = 1, .count = 2});
  rig.settle();
  const SentGrants first = client->take<SentGrants>();
  client->say(PeerGranted{.batch = first.batch});
  rig.settle();
  const SentGrants second = client->take<SentGrants>();
  EXPECT_TRUE(second.completes.has_value());
  EXPECT_EQ(rig.content(first.pages.at(0)), expected_bytes(frame, frame, 3 * frame));
  EXPECT_EQ(rig.content(second.pages.at(0)), expected_bytes(2 * frame, frame, 3 * frame));
  EXPECT_EQ(rig.checked.frames_alive(), 3u);
  EXPECT_EQ(rig.stats.slots_busy, 0u);
  rig.pager->core().verify();
}

}  // namespace
}  // namespace penstock::test
