// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/outbox.hpp"

#include <array>

#include <gtest/gtest.h>

#include "tests/unit/pager/plain_device.hpp"
#include "tests/unit/pager/scripted_port.hpp"

namespace penstock::test {
namespace {

constexpr TableId table{4};
constexpr TableNumber number{9}, other_number{10};

class OutboxTest : public ::testing::Test {
 protected:
  FrameId frame() {
    device.owner().create(0);
    std::array<CreateDone, 1> done;
    CHECK(device.owner().reap(done) == 1);
    return done[0].frame;
  }
  void collect(std::uint32_t batch, std::uint32_t pages) {
    for (std::uint32_t page = 0; page < pages; ++page) {
      outbox.add({.session = SessionId{1},
                  .batch = batch,
                  .page = {.table = table, .index = page},
                  .generation = Generation{5},
                  .frame = frame(),
                  .last = page + 1 == pages},
                 number);
    }
  }
  static OutgoingCompletion completion(std::uint64_t request,
                                       std::optional<Nanoseconds> received = std::nullopt) {
    return {.wire = {.request = request}, .fault_received = received};
  }

  PlainDevice device{{}};
  ScriptedPort port;
  Outbox outbox{port, device.owner()};
};

TEST_F(OutboxTest, SendsABatchWithItsCompletionInOneMessage) {
  collect(1, 3);
  outbox.send_batch(completion(9, Nanoseconds{7}));
  const SentGrants sent = port.take<SentGrants>();
  EXPECT_EQ(sent.batch, 1u);
  ASSERT_EQ(sent.pages.size(), 3u);
  EXPECT_EQ(sent.pages[2].page, 2u);
  ASSERT_TRUE(sent.completes.has_value());
  EXPECT_EQ(sent.completes->request, 9u);
  EXPECT_EQ(outbox.completed_faults(), std::vector{Nanoseconds{7}});
  EXPECT_EQ(port.sent_count(), 0u);
}

TEST_F(OutboxTest, SaysNothingMoreOfATableThatWasClosed) {
  const Revoke revoke{
      .session = SessionId{1}, .page = {.table = table, .index = 0}, .generation = Generation{5}};
  port.refuse_sends(Errc::busy);
  collect(1, 2);
  outbox.send_batch(std::nullopt);
  outbox.send(revoke, number);
  outbox.send(revoke, other_number);
  outbox.forget(number);
  port.refuse_sends(std::nullopt);
  outbox.flush();
  EXPECT_EQ(port.take<SentRevoke>().table, raw(other_number));
  EXPECT_EQ(port.sent_count(), 0u);
  EXPECT_EQ(outbox.take_void_batch(), 1u);  // For the core, as if it had been acknowledged.
}

TEST_F(OutboxTest, KeepsTheOrderWhileTheSocketIsFull) {
  port.refuse_sends(Errc::busy);
  collect(1, 1);
  outbox.send_batch(std::nullopt);
  outbox.send(
      Revoke{.session = SessionId{1}, .page = {.table = table, .index = 0}, .generation = Generation{5}},
      number);
  outbox.send(completion(2, Nanoseconds{1}));
  EXPECT_EQ(outbox.state(), Outbox::State::writable);
  EXPECT_TRUE(outbox.completed_faults().empty());
  port.refuse_sends(std::nullopt);
  outbox.send(completion(3));  // Does not pass what waits.
  EXPECT_EQ(port.sent_count(), 0u);
  outbox.flush();
  EXPECT_EQ(port.take<SentGrants>().batch, 1u);
  EXPECT_EQ(port.take<SentRevoke>().page, 0u);
  EXPECT_EQ(port.take<PeerCompletion>().request, 2u);
  EXPECT_EQ(port.take<PeerCompletion>().request, 3u);
  EXPECT_EQ(outbox.state(), Outbox::State::open);
  EXPECT_EQ(outbox.completed_faults().size(), 1u);
}

TEST_F(OutboxTest, WaitsForAWhileWhenTooManyDescriptorsAreInFlight) {
  port.refuse_sends(Errc::exhausted);
  collect(1, 1);
  outbox.send_batch(std::nullopt);
  EXPECT_EQ(outbox.state(), Outbox::State::later);
}

TEST_F(OutboxTest, EndsAClientThatLeavesTooMuchUnread) {
  outbox.set_queue_max(3);
  port.refuse_sends(Errc::busy);
  for (std::uint64_t request = 1; request <= 3; ++request) outbox.send(completion(request));
  EXPECT_EQ(outbox.state(), Outbox::State::writable);
  outbox.send(completion(4));
  EXPECT_EQ(outbox.state(), Outbox::State::overflow);
  outbox.send(completion(5));
  EXPECT_EQ(outbox.queued(), 3u);
}

TEST_F(OutboxTest, TellsThatThePeerIsGone) {
  port.hang_up();
  outbox.send(completion(1));
  EXPECT_EQ(outbox.state(), Outbox::State::gone);
}

TEST_F(OutboxTest, AcceptsTheAcknowledgementOfTheOpenBatchAlone) {
  EXPECT_FALSE(outbox.acknowledge(0));
  collect(1, 1);
  outbox.send_batch(std::nullopt);
  EXPECT_FALSE(outbox.acknowledge(2));
  EXPECT_TRUE(outbox.acknowledge(1));
  EXPECT_FALSE(outbox.acknowledge(1));
}

TEST_F(OutboxTest, RefusesTheAcknowledgementOfABatchThatHasNotLeft) {
  port.refuse_sends(Errc::busy);
  collect(1, 1);
  outbox.send_batch(std::nullopt);
  EXPECT_FALSE(outbox.acknowledge(1));
}

TEST_F(OutboxTest, HandsOverTheRestWhenOnePageHasNoDescriptor) {
  collect(1, 2);
  device.fail_shares(1);
  outbox.send_batch(completion(9));
  const SentGrants sent = port.take<SentGrants>();
  ASSERT_EQ(sent.pages.size(), 1u);
  EXPECT_EQ(sent.pages[0].page, 1u);
  EXPECT_EQ(sent.completes->result, static_cast<std::uint8_t>(TicketResult::failed));
  EXPECT_EQ(sent.completes->reason, FailureKind::fd_limit);
  ASSERT_EQ(outbox.unshared().size(), 1u);
  EXPECT_EQ(outbox.unshared()[0].page.index, 0u);
  EXPECT_FALSE(outbox.take_void_batch().has_value());
}

TEST_F(OutboxTest, CompletesARequestOfWhichNoPageHasADescriptor) {
  collect(1, 1);
  device.fail_shares(1);
  outbox.send_batch(completion(9));
  EXPECT_EQ(port.take<PeerCompletion>().reason, FailureKind::fd_limit);
  EXPECT_EQ(outbox.take_void_batch(), 1u);
  collect(2, 1);  // The next batch may follow.
  outbox.send_batch(std::nullopt);
  EXPECT_EQ(port.take<SentGrants>().batch, 2u);
}

TEST_F(OutboxTest, HoldsNoDescriptorWhileABatchWaits) {
  port.refuse_sends(Errc::busy);
  const int before = ::dup(0);
  ::close(before);
  collect(1, 3);
  const int made = ::dup(0);
  ::close(made);
  outbox.send_batch(std::nullopt);
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(after, made);  // The lowest free number did not move.
}

}  // namespace
}  // namespace penstock::test
