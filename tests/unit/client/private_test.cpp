// SPDX-License-Identifier: Apache-2.0
// Pages that are this client's alone: anonymous, made private, and copies that are written to.
#include "tests/unit/client/scripted_client.hpp"

#include <unistd.h>

namespace penstock::test {
namespace {

class PrivatePages : public ScriptedClient {
 protected:
  volatile std::uint8_t& writable(std::uint32_t page) {
    return const_cast<volatile std::uint8_t*>(bytes)[page * page_bytes + 17];
  }

  // The kernel writes to the page, or refuses to.
  bool takes_writes(std::uint32_t page) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    EXPECT_EQ(::write(pipe[1], "x", 1), 1);
    const bool fine = ::read(pipe[0], const_cast<std::uint8_t*>(bytes) + page * page_bytes, 1) == 1;
    ::close(pipe[0]);
    ::close(pipe[1]);
    return fine;
  }

  void make_private(std::uint32_t page, std::uint64_t shared, std::uint64_t own) {
    auto made = std::async(std::launch::async, [=, this] {
      return pst_make_private(table, page * page_bytes, page_bytes, 20 * second);
    });
    auto& device = service.device();
    const auto asked = device.next<PeerMakePrivate>();
    EXPECT_EQ(asked.table, service.table().number);
    device.grant_filled(service.table().overlay, page, own, 77, asked.request, true);
    const auto release = device.next<PeerRelease>();
    EXPECT_EQ(release.table, service.table().number);
    EXPECT_EQ(release.generation, shared);
    EXPECT_TRUE(release.drop_if_last);  // It would be there twice.
    ASSERT_EQ(made.get(), PST_DONE);
    collect_acknowledgement();
  }
};

TEST_F(PrivatePages, AnAnonymousTableIsWritable) {
  open_anonymous(3);
  auto pinned = pin_later(0, 2);
  const auto fault = service.device().next<PeerFault>();
  service.device().grant(fault.table, 0, 2, 1, fault.request, true);
  ASSERT_EQ(pinned.get(), PST_DONE);
  writable(1) = 200;
  EXPECT_EQ(byte_of(1), 200);
  pst_residency residency{};
  residency.size = sizeof residency;
  ASSERT_EQ(pst_table_residency(table, &residency), PST_DONE);
  EXPECT_EQ(residency.private_bytes, 2 * page_bytes);
}

TEST_F(PrivatePages, MakingPrivateNeedsAPin) {
  open();
  EXPECT_EQ(pst_make_private(table, 0, 1, second), PST_UNPINNED);
  EXPECT_EQ(pst_make_private(table, 0, 0, second), PST_DONE);
}

TEST_F(PrivatePages, APageIsReplacedUnderItsPins) {
  open();
  bring_in(0, 2, 3);
  ASSERT_EQ(pin(0), PST_DONE);
  make_private(0, 3, 8);
  EXPECT_EQ(service.table().pin_count(0), 2u);
  EXPECT_EQ(byte_of(0), 77);
  writable(0) = 5;
  EXPECT_EQ(byte_of(0), 5);
  EXPECT_EQ(byte_of(1), 2);
  // Private already: nothing to do.
  EXPECT_EQ(pst_make_private(table, 0, 1, second), PST_DONE);

  // From now on revokes name the overlay.
  auto& device = service.device();
  device.revoke(service.table().overlay, 0, 8);
  EXPECT_EQ(device.next<PeerBusy>().table, service.table().overlay);
  ASSERT_EQ(unpin(0), PST_DONE);
  ASSERT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(device.next<PeerIdle>().table, service.table().overlay);
  device.revoke(service.table().number, 0, 3);  // Crossed the release: no answer.
  device.revoke(service.table().overlay, 0, 8);
  EXPECT_EQ(device.next<PeerAcked>().table, service.table().overlay);

  // The position shows the shared page again.
  bring_in(0, 1, 4);
  EXPECT_EQ(byte_of(0), 1);
}

TEST_F(PrivatePages, AFaultOfARangeAsksForNoSharedPageBesideAPrivateOne) {
  open();
  bring_in(1, 1, 3);
  make_private(1, 3, 8);
  auto pinned = pin_later(0, 4);
  auto& device = service.device();
  const auto before = device.next<PeerFault>(), behind = device.next<PeerFault>();
  EXPECT_EQ(before.first, 0u);
  EXPECT_EQ(before.count, 1u);
  EXPECT_EQ(behind.first, 2u);
  EXPECT_EQ(behind.count, 2u);
  device.grant(behind.table, 2, 2, 1, behind.request);
  device.grant(before.table, 0, 1, 1, before.request);
  ASSERT_EQ(pinned.get(), PST_DONE);
  EXPECT_EQ(byte_of(1), 77);
  EXPECT_EQ(byte_of(3), 4);
  EXPECT_EQ(service.table().pin_count(1), 2u);
}

TEST_F(PrivatePages, TheSerialChangesWithThePrivatePage) {
  open();
  service.table().show(0, PSTW_RESIDENT, 3);
  std::uint64_t before = 0, made = 0, lost = 0;
  std::size_t count = 0;
  ASSERT_EQ(pst_serials(table, 0, 1, &before, 1, &count), PST_DONE);
  bring_in(0, 1, 3);
  make_private(0, 3, 3);
  service.table().overlay_words->store(0,
                                       static_cast<std::uint64_t>(PSTW_RESIDENT) << PSTW_RESIDENCY_SHIFT | 3);
  ASSERT_EQ(pst_serials(table, 0, 1, &made, 1, &count), PST_DONE);
  service.table().overlay_words->store(0, 3);
  ASSERT_EQ(pst_serials(table, 0, 1, &lost, 1, &count), PST_DONE);
  EXPECT_NE(before, made);
  EXPECT_NE(made, lost);
}

TEST_F(PrivatePages, AWritableGrantOfASharedPageIsAViolation) {
  open();
  service.device().grant(service.table().number, 0, 1, 1, std::nullopt, true);
  EXPECT_TRUE(service.device().hung_up());
}

TEST_F(PrivatePages, PrivatePagesAreFreedFirst) {
  open();
  bring_in(0, 2, 3);
  make_private(1, 3, 8);
  ASSERT_EQ(unpin(0, 2), PST_DONE);
  std::uint64_t freed = 0;
  auto done =
      std::async(std::launch::async, [&] { return pst_free(client, nullptr, 1, 20 * second, &freed); });
  const auto release = service.device().next<PeerRelease>();
  EXPECT_EQ(release.table, service.table().overlay);
  EXPECT_EQ(release.page, 1u);
  service.device().complete(release.request, TicketResult::done, FailureKind::internal, page_bytes);
  EXPECT_EQ(done.get(), PST_DONE);
  EXPECT_EQ(freed, page_bytes);
}

TEST_F(PrivatePages, WrittenCopiesStayHereAndAreDroppedWithTheLastPermission) {
  open(PST_AGENT, true);
  auto pinned = pin_later(0);
  const auto fault = service.device().next<PeerFault>();
  const UniqueFd frame = make_frame(9);
  const GrantedPage granted{fault.table, 0, 1, false, frame.get()};
  ASSERT_TRUE(service.device().port().send_grants(1, std::span(&granted, 1),
                                                  PeerCompletion{.request = fault.request}));
  ASSERT_EQ(pinned.get(), PST_DONE);
  ASSERT_EQ(pst_allow_writes(table, 0, 1), PST_DONE);
  ASSERT_EQ(pst_allow_writes(table, 0, 1), PST_DONE);
  writable(0) = 1;
  EXPECT_EQ(byte_of(0), 1);
  const Mapping others = *Mapping::shared(frame.get(), page_bytes, Access::read);
  EXPECT_EQ(others.bytes()[17], std::byte{9});
  ASSERT_EQ(pst_end_writes(table, 0, 1), PST_DONE);
  EXPECT_EQ(byte_of(0), 1);
  ASSERT_EQ(pst_end_writes(table, 0, 1), PST_DONE);
  EXPECT_EQ(byte_of(0), 9);
  EXPECT_EQ(pst_end_writes(table, 0, 1), PST_UNPINNED);
  EXPECT_FALSE(takes_writes(0));
}

TEST_F(PrivatePages, WritesAreAllowedOnlyWhereTheTableWasOpenedForIt) {
  open();
  bring_in(0);
  EXPECT_EQ(pst_allow_writes(table, 0, 1), PST_UNSUPPORTED);
}

TEST_F(PrivatePages, AStrayWriteToASharedPageFaults) {
  open();
  bring_in(0, 2, 3);
  make_private(1, 3, 8);
  EXPECT_TRUE(takes_writes(1));
  EXPECT_FALSE(takes_writes(0));
}

}  // namespace
}  // namespace penstock::test
