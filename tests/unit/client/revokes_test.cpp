// SPDX-License-Identifier: Apache-2.0
// Revokes, in both modes, and memory given back by the client's own will.
#include "tests/unit/client/scripted_client.hpp"

#include <unistd.h>

#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

class Revokes : public ScriptedClient {
 protected:
  bool readable(std::uint32_t page) const {
    // The kernel copies from the page, or refuses to.
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    const bool fine = ::write(pipe[1], const_cast<const std::uint8_t*>(bytes) + page * page_bytes, 1) == 1;
    ::close(pipe[0]);
    ::close(pipe[1]);
    return fine;
  }
};

TEST_F(Revokes, AnUnpinnedPageIsUnmappedAndAcknowledgedByTheAgent) {
  open();
  bring_in(1, 1, 4);
  ASSERT_EQ(unpin(1), PST_DONE);
  EXPECT_TRUE(readable(1));
  service.device().revoke(service.table().number, 1, 4);
  const auto acked = service.device().next<PeerAcked>();
  EXPECT_EQ(acked.page, 1u);
  EXPECT_EQ(acked.generation, 4u);
  EXPECT_FALSE(readable(1));
  EXPECT_EQ(service.table().pin_state(1), std::uint32_t{PSTW_PIN_UNMAPPED});
  pst_event event{};
  event.size = sizeof event;
  ASSERT_TRUE(eventually([&] { return pst_next_event(client, &event) == PST_DONE; }));
  EXPECT_EQ(event.kind, std::uint32_t{PST_EVENT_REVOKED});
  EXPECT_EQ(event.page, 1u);
}

TEST_F(Revokes, APinnedPageIsBusyThenIdleAtItsLastUnpin) {
  open();
  bring_in(0);
  ASSERT_EQ(pin(0), PST_DONE);
  auto& device = service.device();
  device.revoke(service.table().number, 0, 1);
  const auto busy = device.next<PeerBusy>();
  EXPECT_EQ(busy.generation, 1u);
  EXPECT_FALSE(busy.later);
  EXPECT_EQ(byte_of(0), 1);
  ASSERT_EQ(unpin(0), PST_DONE);
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(10)));
  ASSERT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(device.next<PeerIdle>().page, 0u);
  EXPECT_EQ(byte_of(0), 1);
  ASSERT_EQ(pin(0, 1, 0), PST_DONE);
  ASSERT_EQ(unpin(0), PST_DONE);
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(10)));
  device.revoke(service.table().number, 0, 1);
  EXPECT_EQ(device.next<PeerAcked>().page, 0u);
}

TEST_F(Revokes, ARevokeOfWhatIsNotMappedHereHasNoAnswer) {
  open();
  bring_in(0, 1, 2);
  ASSERT_EQ(unpin(0), PST_DONE);
  auto& device = service.device();
  device.revoke(service.table().number, 1, 1);
  device.revoke(service.table().number, 0, 1);  // An older one than is mapped.
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(20)));
  EXPECT_EQ(byte_of(0), 1);
}

TEST_F(Revokes, ARevokeOutsideOfItsTableBreaksTheConnection) {
  open();
  service.device().revoke(service.table().number, 8, 1);
  EXPECT_TRUE(service.device().hung_up());
}

TEST_F(Revokes, CooperativePagesWaitForTheApplication) {
  open(PST_COOPERATIVE);
  EXPECT_EQ(service.table().asked.mode, RevokeMode::cooperative);
  bring_in(0, 2);
  ASSERT_EQ(unpin(0, 2), PST_DONE);
  auto& device = service.device();
  const std::uint32_t number = service.table().number;
  device.revoke(number, 0, 1);
  EXPECT_TRUE(device.next<PeerBusy>().later);
  EXPECT_TRUE(readable(0));
  ASSERT_EQ(pst_run_revokes(client), PST_DONE);
  EXPECT_EQ(device.next<PeerAcked>().page, 0u);
  EXPECT_FALSE(readable(0));

  // Pinned again before the application comes by: its last unpin is the point.
  device.revoke(number, 1, 1);
  EXPECT_TRUE(device.next<PeerBusy>().later);
  ASSERT_EQ(pin(1, 1, 0), PST_DONE);
  ASSERT_EQ(pst_run_revokes(client), PST_DONE);
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(10)));
  EXPECT_EQ(byte_of(1), 2);
  ASSERT_EQ(unpin(1), PST_DONE);
  EXPECT_EQ(device.next<PeerAcked>().page, 1u);
}

TEST_F(Revokes, APinnedCooperativePageIsBusyAndNotLater) {
  open(PST_COOPERATIVE);
  bring_in(0);
  service.device().revoke(service.table().number, 0, 1);
  EXPECT_FALSE(service.device().next<PeerBusy>().later);
  ASSERT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(service.device().next<PeerIdle>().page, 0u);
}

TEST_F(Revokes, TheAgentUnmapsCooperativePagesWhileTheApplicationIsIdle) {
  open(PST_COOPERATIVE);
  bring_in(0, 3);
  ASSERT_EQ(unpin(0, 3), PST_DONE);
  auto& device = service.device();
  const std::uint32_t number = service.table().number;
  device.revoke(number, 0, 1);
  EXPECT_TRUE(device.next<PeerBusy>().later);
  ASSERT_EQ(pst_idle(client, 1), PST_DONE);
  EXPECT_EQ(device.next<PeerAcked>().page, 0u);
  device.revoke(number, 1, 1);
  EXPECT_EQ(device.next<PeerAcked>().page, 1u);
  // A fault says that the application works again.
  ASSERT_EQ(pin(2, 1, 0), PST_DONE);
  ASSERT_EQ(unpin(2), PST_DONE);
  device.revoke(number, 2, 1);
  EXPECT_TRUE(device.next<PeerBusy>().later);
  ASSERT_EQ(pst_idle(client, 1), PST_DONE);
  EXPECT_EQ(device.next<PeerAcked>().page, 2u);
}

TEST_F(Revokes, AFaultThatWaitsCarriesOutCooperativeRevokes) {
  open(PST_COOPERATIVE);
  bring_in(0);
  ASSERT_EQ(unpin(0), PST_DONE);
  auto pinned = pin_later(1);
  auto& device = service.device();
  const auto fault = device.next<PeerFault>();
  device.revoke(fault.table, 0, 1);
  EXPECT_TRUE(device.next<PeerBusy>().later);
  EXPECT_EQ(device.next<PeerAcked>().page, 0u);
  device.grant(fault.table, 1, 1, 1, fault.request);
  EXPECT_EQ(pinned.get(), PST_DONE);
}

TEST_F(Revokes, FreeGivesUnpinnedPagesBackAndTellsWhatTheServiceSays) {
  open();
  bring_in(0, 4);
  ASSERT_EQ(unpin(0, 3), PST_DONE);
  auto& device = service.device();
  std::uint64_t freed = 0;
  auto done = std::async(std::launch::async,
                         [&] { return pst_free(client, nullptr, 2 * page_bytes, 20 * second, &freed); });
  const auto first = device.next<PeerRelease>();
  const auto next = device.next<PeerRelease>();
  EXPECT_TRUE(first.drop_if_last);
  EXPECT_EQ(first.generation, 1u);
  EXPECT_NE(first.page, 3u);
  // One of them is mapped by another client, too: its bytes stay in use, and a third page goes.
  device.complete(first.request, TicketResult::done, FailureKind::internal, 0);
  device.complete(next.request, TicketResult::done, FailureKind::internal, page_bytes);
  const auto last = device.next<PeerRelease>();
  device.complete(last.request, TicketResult::done, FailureKind::internal, page_bytes);
  EXPECT_EQ(done.get(), PST_DONE);
  EXPECT_EQ(freed, 2 * page_bytes);
  for (std::uint32_t page = 0; page < 3; ++page) EXPECT_FALSE(readable(page));
  EXPECT_EQ(byte_of(3), 4);
  // A revoke that crossed the release has no answer.
  device.revoke(service.table().number, 0, 1);
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(20)));
}

TEST_F(Revokes, FreeAsksTheServiceForTheRest) {
  open();
  service.on_request = [](std::uint64_t,
                          const wire::ClientMessage& message) -> std::optional<wire::ServiceMessage> {
    if (const auto* free = std::get_if<wire::Free>(&message))
      return wire::FreeReply{.freed_bytes = free->bytes - 1};
    return wire::Done{};
  };
  std::uint64_t freed = 0;
  EXPECT_EQ(pst_free(client, "host", 1000, second, &freed), PST_DONE);
  EXPECT_EQ(freed, 999u);
  EXPECT_EQ(pst_free(client, "cuda-00000000", 1000, second, &freed), PST_NOT_FOUND);
}

}  // namespace
}  // namespace penstock::test
