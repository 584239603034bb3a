// SPDX-License-Identifier: Apache-2.0
// A service that dies and comes back.
#include "tests/unit/client/scripted_client.hpp"

#include <unistd.h>

#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

class Reconnect : public ScriptedClient {
 protected:
  pst_event_kind next_event() {
    pst_event event{};
    event.size = sizeof event;
    EXPECT_TRUE(eventually(
        [&] { return pst_next_event(client, &event) == PST_DONE && event.kind != PST_EVENT_REVOKED; }));
    return static_cast<pst_event_kind>(event.kind);
  }
  bool readable(std::uint32_t page) const {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    const bool fine = ::write(pipe[1], const_cast<const std::uint8_t*>(bytes) + page * page_bytes, 1) == 1;
    ::close(pipe[0]);
    ::close(pipe[1]);
    return fine;
  }
};

TEST_F(Reconnect, MappedPagesStayAndNewFaultsFailWhileTheServiceIsGone) {
  open();
  bring_in(0, 2);
  ASSERT_EQ(unpin(1), PST_DONE);
  auto waiting = pin_later(2);
  service.device().next<PeerFault>();
  service.die();
  EXPECT_EQ(waiting.get(), PST_DISCONNECTED);
  EXPECT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  EXPECT_EQ(byte_of(0), 1);
  EXPECT_EQ(pin(1, 1, 0), PST_DONE);
  EXPECT_EQ(byte_of(1), 2);
  EXPECT_EQ(unpin(1), PST_DONE);
  EXPECT_EQ(pin(2), PST_DISCONNECTED);
  EXPECT_NE(error().find("socket"), std::string::npos) << error();
  pst_checkpoint* other = nullptr;
  EXPECT_EQ(pst_open(client, (folder / "model.safetensors").c_str(), &other), PST_DISCONNECTED);
  std::uint64_t freed = 0;
  EXPECT_EQ(pst_free(client, nullptr, 1, 0, &freed), PST_DISCONNECTED);
}

TEST_F(Reconnect, AClientThatDoesNotWantToStaysDisconnected) {
  connect(false);
  open();
  service.die();
  service.come_back();
  EXPECT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  EXPECT_EQ(pin(0), PST_DISCONNECTED);
}

TEST_F(Reconnect, ANewFaultOpensEverythingAgain) {
  open();
  ASSERT_EQ(pst_set_cutoff(table, 4 * page_bytes), PST_DONE);
  ASSERT_EQ(pst_prioritize(table), PST_DONE);
  service.device().next<PeerCutoff>();
  service.device().next<PeerPrioritize>();
  bring_in(0, 3);
  ASSERT_EQ(unpin(1, 2), PST_DONE);
  service.die();
  ASSERT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  ASSERT_EQ(pin(2, 1, 0), PST_DONE);
  service.come_back();

  auto pinned = pin_later(4);
  auto& device = service.device();
  EXPECT_EQ(device.next<PeerCutoff>().pages, 4u);
  EXPECT_EQ(device.next<PeerPrioritize>().table, service.table().number);
  const auto fault = device.next<PeerFault>();
  EXPECT_EQ(fault.table, service.table().number);
  EXPECT_TRUE(service.asked<wire::OpenCheckpoint>()->files.at(0).name == "model.safetensors");
  // Pinned pages stayed, with their counts in the new region; the others are unmapped.
  EXPECT_EQ(service.table().pin_count(0), 1u);
  EXPECT_EQ(service.table().pin_count(2), 1u);
  EXPECT_EQ(service.table().pin_state(1), std::uint32_t{PSTW_PIN_UNMAPPED});
  EXPECT_EQ(byte_of(0), 1);
  EXPECT_FALSE(readable(1));
  device.grant(fault.table, 4, 1, 1, fault.request);
  EXPECT_EQ(pinned.get(), PST_DONE);
  EXPECT_EQ(next_event(), PST_EVENT_RECONNECTED);

  // The last unpin of a page of the old service unmaps it; nobody is told.
  EXPECT_EQ(unpin(0), PST_DONE);
  EXPECT_FALSE(readable(0));
  EXPECT_EQ(service.table().pin_state(0), std::uint32_t{PSTW_PIN_UNMAPPED});
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(10)));
}

TEST_F(Reconnect, AGrantTakesThePlaceOfAPinnedPageOfTheOldService) {
  open();
  bring_in(0);
  service.die();
  ASSERT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  service.come_back();
  auto pinned = pin_later(1);
  auto& device = service.device();
  const auto fault = device.next<PeerFault>();
  device.grant_filled(fault.table, 0, 1, 1);
  device.next<PeerGranted>();
  device.grant(fault.table, 1, 1, 1, fault.request);
  ASSERT_EQ(pinned.get(), PST_DONE);
  EXPECT_EQ(byte_of(0), 1);
  EXPECT_EQ(service.table().pin_count(0), 1u);
  device.revoke(fault.table, 0, 1);
  EXPECT_FALSE(device.next<PeerBusy>().later);
  EXPECT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(device.next<PeerIdle>().page, 0u);
  EXPECT_TRUE(readable(0));
}

TEST_F(Reconnect, APinnedPrivatePageKeepsItsContent) {
  open_anonymous(2);
  auto first = pin_later(0);
  auto fault = service.device().next<PeerFault>();
  service.device().grant(fault.table, 0, 1, 1, fault.request, true);
  ASSERT_EQ(first.get(), PST_DONE);
  const_cast<volatile std::uint8_t*>(bytes)[17] = 123;
  service.die();
  ASSERT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  service.come_back();
  auto both = pin_later(0, 2);
  fault = service.device().next<PeerFault>();
  service.device().grant(fault.table, 0, 2, 1, fault.request, true);
  EXPECT_EQ(service.device().next<PeerRelease>().page, 0u);
  ASSERT_EQ(both.get(), PST_DONE);
  EXPECT_EQ(byte_of(0), 123);
  EXPECT_EQ(service.table().pin_count(0), 2u);
}

TEST_F(Reconnect, AnotherFileUnderTheSameDescriptorIsNotTakenForTheOldOne) {
  open();
  bring_in(0);
  service.die();
  ASSERT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  service.checkpoint_id = "ba9876543210";
  service.come_back();
  EXPECT_EQ(pin(1), PST_CHANGED_WHILE_READ);
  EXPECT_EQ(byte_of(0), 1);
  EXPECT_EQ(unpin(0), PST_DONE);
}

TEST_F(Reconnect, HandlesOfTheOldConnectionAreDisconnected) {
  connect();
  pst_host_buffer* buffer = nullptr;
  ASSERT_EQ(pst_host_buffer_create(client, 8192, &buffer), PST_DONE);
  static_cast<char*>(pst_host_buffer_address(buffer))[0] = 1;
  service.die();
  ASSERT_EQ(next_event(), PST_EVENT_DISCONNECTED);
  service.come_back();
  char* answer = nullptr;
  ASSERT_EQ(pst_query(client, "status", "{}", &answer), PST_DONE);
  pst_release_text(answer);
  EXPECT_EQ(pst_host_buffer_truncate(buffer, 1), PST_DISCONNECTED);
  EXPECT_EQ(static_cast<char*>(pst_host_buffer_address(buffer))[0], 1);
  pst_host_buffer_close(buffer);
}

TEST_F(Reconnect, PinsGoOnWhileTheConnectionChanges) {
  service.pages = 16;
  open();
  bring_in(0);
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> done = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        if (pin(0, 1, 0) != PST_DONE || byte_of(0) != 1 || unpin(0) != PST_DONE) ++wrong;
        ++done;
      }
    });
  }
  for (std::uint32_t page = 1; page < 12; ++page) {
    service.die();
    ASSERT_EQ(next_event(), PST_EVENT_DISCONNECTED);
    service.come_back();
    auto pinned = pin_later(page);
    const auto fault = service.device().next<PeerFault>();
    service.device().grant(fault.table, page, 1, 1, fault.request);
    ASSERT_EQ(pinned.get(), PST_DONE);
    ASSERT_EQ(next_event(), PST_EVENT_RECONNECTED);
    ASSERT_EQ(unpin(page), PST_DONE);
    const std::uint64_t seen = done;
    ASSERT_TRUE(eventually([&] { return done > seen + 100; }));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(service.table().pin_count(0), 1u);
  EXPECT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(unpin(0), PST_UNPINNED);
  EXPECT_FALSE(readable(0));
}

}  // namespace
}  // namespace penstock::test
