// SPDX-License-Identifier: Apache-2.0
// Faults, grants and pins, against a scripted service.
#include "tests/unit/client/scripted_client.hpp"

#include <vector>

#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

class Pages : public ScriptedClient {};

TEST_F(Pages, AFaultMapsAndPinsAndOwesItsAcknowledgement) {
  open();
  auto pinned = pin_later(2);
  const auto fault = service.device().next<PeerFault>();
  EXPECT_EQ(fault.table, service.table().number);
  EXPECT_EQ(fault.first, 2u);
  EXPECT_EQ(fault.count, 1u);
  service.device().grant(fault.table, 2, 1, 9, fault.request);
  EXPECT_EQ(pinned.get(), PST_DONE);
  EXPECT_EQ(service.table().pin_state(2), std::uint32_t{PSTW_PIN_MAPPED});
  EXPECT_EQ(service.table().pin_count(2), 1u);
  EXPECT_EQ(byte_of(2), 3);
  // Whatever it says next carries it, here what the agent answers while the program does nothing.
  EXPECT_FALSE(service.device().next_within(std::chrono::milliseconds(10)));
  service.device().revoke(fault.table, 2, 9);
  service.device().next<PeerBusy>();
  EXPECT_EQ(service.device().acknowledged(), 1u);
  ASSERT_EQ(unpin(2), PST_DONE);
  service.device().next<PeerIdle>();
}

TEST_F(Pages, APageIsPinnedBeforeTheRevokeBehindItsGrantIsRead) {
  open();
  auto pinned = pin_later(2);
  auto& device = service.device();
  const auto fault = device.next<PeerFault>();
  device.grant(fault.table, 2, 1, 9, fault.request);
  device.revoke(fault.table, 2, 9);
  EXPECT_EQ(device.next<PeerBusy>().generation, 9u);
  EXPECT_EQ(device.acknowledged(), 1u);
  EXPECT_EQ(pinned.get(), PST_DONE);
  EXPECT_EQ(byte_of(2), 3);
}

TEST_F(Pages, ABatchIsAcknowledgedAtOnceWhileAnotherRequestWaits) {
  open();
  auto one = pin_later(1);
  auto& device = service.device();
  const auto first = device.next<PeerFault>();
  auto two = pin_later(2);
  const auto second = device.next<PeerFault>();
  device.grant(first.table, 1, 1, 1, first.request);
  EXPECT_EQ(device.next<PeerGranted>().batch, 1u);
  EXPECT_EQ(one.get(), PST_DONE);
  device.grant(second.table, 2, 1, 1, second.request);
  EXPECT_EQ(two.get(), PST_DONE);
  EXPECT_FALSE(device.next_within(std::chrono::milliseconds(10)));
  auto three = pin_later(3);
  const auto third = device.next<PeerFault>();
  EXPECT_EQ(device.acknowledged(), 2u);
  device.grant(third.table, 3, 1, 1, third.request);
  EXPECT_EQ(three.get(), PST_DONE);
}

TEST_F(Pages, ASecondBatchBeforeTheAcknowledgementBreaksTheConnection) {
  open();
  auto pinned = pin_later(0);
  auto& device = service.device();
  const auto fault = device.next<PeerFault>();
  device.grant(fault.table, 0, 1, 1, fault.request);
  ASSERT_EQ(pinned.get(), PST_DONE);
  device.grant(fault.table, 1, 1, 1);
  EXPECT_TRUE(device.hung_up());
  EXPECT_EQ(byte_of(0), 1);
}

TEST_F(Pages, PinsOfAMappedPageNeedNoService) {
  open();
  bring_in(0);
  EXPECT_EQ(pin(0, 1, 0), PST_DONE);
  EXPECT_EQ(service.table().pin_count(0), 2u);
  EXPECT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(unpin(0), PST_DONE);
  EXPECT_EQ(pin(0, 1, 0), PST_DONE);
  EXPECT_FALSE(service.device().next_within(std::chrono::milliseconds(0)));
}

TEST_F(Pages, AStrayUnpinIsRefusedAndChangesNothing) {
  open();
  bring_in(0, 2);
  EXPECT_EQ(unpin(3), PST_UNPINNED);
  EXPECT_EQ(unpin(1, 2), PST_UNPINNED);
  EXPECT_NE(error().find("not pinned"), std::string::npos);
  EXPECT_EQ(service.table().pin_count(1), 1u);
  EXPECT_EQ(unpin(0, 2), PST_DONE);
  EXPECT_EQ(unpin(0, 2), PST_UNPINNED);
  EXPECT_EQ(service.table().pin_count(0), 0u);
}

TEST_F(Pages, ARangeOutsideOfTheTableIsRefused) {
  open();
  EXPECT_EQ(pin(7, 2), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_fault(table, UINT64_MAX, 2, 0), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_fault(table, 1, UINT64_MAX, 0), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_unpin(table, 8 * page_bytes, 1, nullptr), PST_INVALID_ARGUMENT);
  EXPECT_EQ(pst_fault(table, 8 * page_bytes, 0, 0), PST_DONE);
}

TEST_F(Pages, ARangeThatNeedsAFaultHoldsNoPinWhileItWaits) {
  open();
  bring_in(0);
  ASSERT_EQ(unpin(0), PST_DONE);
  auto pinned = pin_later(0, 3);
  const auto fault = service.device().next<PeerFault>();
  // The mapped one is named, too: what a fault names is not taken away meanwhile.
  EXPECT_EQ(fault.first, 0u);
  EXPECT_EQ(fault.count, 3u);
  EXPECT_EQ(service.table().pin_count(0), 0u);
  service.device().complete(fault.request, TicketResult::offloaded);
  EXPECT_EQ(pinned.get(), PST_OFFLOADED);
  for (std::uint32_t page = 0; page < 3; ++page) EXPECT_EQ(service.table().pin_count(page), 0u);
}

TEST_F(Pages, ALargeFaultComesInSeveralBatches) {
  service.pages = 300;
  open();
  auto pinned = pin_later(0, 300);
  auto& device = service.device();
  const auto fault = device.next<PeerFault>();
  device.grant(fault.table, 0, 128, 1);
  EXPECT_EQ(device.next<PeerGranted>().batch, 1u);
  EXPECT_EQ(service.table().pin_state(127), std::uint32_t{PSTW_PIN_MAPPED});
  device.grant(fault.table, 128, 128, 1);
  EXPECT_EQ(device.next<PeerGranted>().batch, 2u);
  device.grant(fault.table, 256, 44, 1, fault.request);
  EXPECT_EQ(pinned.get(), PST_DONE);
  for (std::uint32_t page = 0; page < 300; ++page) {
    ASSERT_EQ(service.table().pin_count(page), 1u);
    ASSERT_EQ(byte_of(page), static_cast<std::uint8_t>(page + 1));
  }
}

TEST_F(Pages, APageThatIsGivenAwayBeforeTheFaultCompletesIsAskedForAgain) {
  open();
  auto pinned = pin_later(0, 2);
  auto& device = service.device();
  const auto fault = device.next<PeerFault>();
  device.grant(fault.table, 0, 1, 1);
  device.next<PeerGranted>();
  device.revoke(fault.table, 0, 1);
  EXPECT_EQ(device.next<PeerAcked>().page, 0u);
  device.grant(fault.table, 1, 1, 1, fault.request);
  const auto again = device.next<PeerFault>();
  EXPECT_EQ(device.acknowledged(), 2u);
  EXPECT_EQ(again.first, 0u);
  EXPECT_EQ(again.count, 2u);
  EXPECT_EQ(service.table().pin_count(1), 0u);
  device.grant(fault.table, 0, 1, 2, again.request);
  EXPECT_EQ(pinned.get(), PST_DONE);
  EXPECT_EQ(service.table().pin_count(0), 1u);
  EXPECT_EQ(service.table().pin_count(1), 1u);
}

TEST_F(Pages, AFaultThatTakesTooLongIsCancelled) {
  open();
  EXPECT_EQ(pin(0, 1, 0), PST_DEADLINE);
  auto pinned = pin_later(0, 1, second / 20);
  const auto fault = service.device().next<PeerFault>();
  EXPECT_EQ(pinned.get(), PST_DEADLINE);
  EXPECT_EQ(service.device().next<PeerCancel>().request, fault.request);
  // It was on its way: the page is mapped all the same, and belongs to nobody.
  service.device().grant(fault.table, 0, 1, 1, fault.request);
  const ScriptedTable& shown = service.table();
  ASSERT_TRUE(eventually([&] { return shown.pin_state(0) == PSTW_PIN_MAPPED; }));
  EXPECT_EQ(shown.pin_count(0), 0u);
  EXPECT_EQ(pin(0, 1, 0), PST_DONE);
}

TEST_F(Pages, FailuresOfAFaultKeepTheirKind) {
  open();
  auto pinned = pin_later(0);
  service.device().complete(service.device().next<PeerFault>().request, TicketResult::failed,
                            FailureKind::io_error);
  EXPECT_EQ(pinned.get(), PST_IO_ERROR);
}

TEST_F(Pages, ThreadsThatWaitForOneSocketGetTheirOwnAnswers) {
  open();
  std::vector<std::future<pst_status>> pins;
  for (std::uint32_t page = 0; page < 8; ++page) pins.push_back(pin_later(page));
  auto& device = service.device();
  std::vector<PeerFault> faults;
  for (int i = 0; i < 8; ++i) faults.push_back(device.next<PeerFault>());
  std::reverse(faults.begin(), faults.end());
  for (const PeerFault& fault : faults) {
    device.grant(fault.table, fault.first, 1, 1, fault.request);
    if (&fault != &faults.back()) device.next<PeerGranted>();
  }
  for (auto& pinned : pins) EXPECT_EQ(pinned.get(), PST_DONE);
  for (std::uint32_t page = 0; page < 8; ++page) EXPECT_EQ(service.table().pin_count(page), 1u);
}

TEST_F(Pages, AGrantOlderThanTheLastRevokeIsGivenBack) {
  open();
  bring_in(0, 1, 5);
  ASSERT_EQ(unpin(0), PST_DONE);
  auto& device = service.device();
  device.revoke(service.table().number, 0, 5);
  device.next<PeerAcked>();
  device.grant(service.table().number, 0, 1, 4);
  const auto release = device.next<PeerRelease>();
  EXPECT_EQ(release.page, 0u);
  EXPECT_EQ(release.generation, 4u);
  EXPECT_EQ(device.next<PeerGranted>().batch, 2u);
  EXPECT_EQ(service.table().pin_state(0), std::uint32_t{PSTW_PIN_UNMAPPED});
  // The same generation may come back: its eviction was given up.
  device.grant(service.table().number, 0, 1, 5);
  EXPECT_EQ(device.next<PeerGranted>().batch, 3u);
  EXPECT_EQ(service.table().pin_state(0), std::uint32_t{PSTW_PIN_MAPPED});
}

TEST_F(Pages, AGrantOfWhatIsMappedAlreadyIsTolerated) {
  open();
  bring_in(0);
  service.device().grant_filled(service.table().number, 0, 1, 99);
  EXPECT_EQ(service.device().next<PeerGranted>().batch, 2u);
  EXPECT_EQ(byte_of(0), 1);
  EXPECT_EQ(service.table().pin_count(0), 1u);
}

TEST_F(Pages, AnotherGenerationUnderAPinBreaksTheConnection) {
  open();
  bring_in(0);
  service.device().grant(service.table().number, 0, 1, 2);
  EXPECT_TRUE(service.device().hung_up());
  EXPECT_EQ(byte_of(0), 1);
}

TEST_F(Pages, AGrantOfAClosedTableIsAcknowledgedAndNotMapped) {
  open();
  bring_in(0);
  const std::uint32_t number = service.table().number;
  pst_table_close(table);
  EXPECT_EQ(service.asked<wire::CloseTable>()->table, number);
  service.device().grant(number, 1, 1, 1);
  EXPECT_EQ(service.device().next<PeerGranted>().batch, 2u);
  service.device().revoke(number, 0, 1);
  EXPECT_FALSE(service.device().next_within(std::chrono::milliseconds(20)));
}

TEST_F(Pages, OneContentIsOneTableInAProcess) {
  open();
  pst_table* const first = table;
  open();
  ASSERT_NE(first, table);
  bring_in(0);
  EXPECT_EQ(pst_unpin(first, 0, page_bytes, nullptr), PST_DONE);
  pst_table_close(table);
  EXPECT_EQ(pst_fault(first, 0, page_bytes, 0), PST_DONE);
  pst_table_options options{};
  options.size = sizeof options;
  options.mode = PST_COOPERATIVE;
  EXPECT_EQ(pst_table_open(checkpoint, &options, &table), PST_BUSY);
}

TEST_F(Pages, ATableThatTheServiceClosedKeepsWhatIsMapped) {
  open();
  bring_in(0);
  service.send(0, wire::TableGone{service.table().number, FailureKind::changed_while_read});
  while (pin(1, 1, second / 100) == PST_DEADLINE) {
  }
  EXPECT_EQ(pin(1), PST_CHANGED_WHILE_READ);
  EXPECT_EQ(pin(0, 1, 0), PST_DONE);
  EXPECT_EQ(byte_of(0), 1);
}

TEST_F(Pages, CutoffPriorityAndPrefetchAreToldInPages) {
  open();
  auto& device = service.device();
  ASSERT_EQ(pst_set_cutoff(table, page_bytes + 1), PST_DONE);
  EXPECT_EQ(device.next<PeerCutoff>().pages, 2u);
  ASSERT_EQ(pst_set_cutoff(table, UINT64_MAX), PST_DONE);
  EXPECT_EQ(device.next<PeerCutoff>().pages, UINT32_MAX);
  ASSERT_EQ(pst_prioritize(table), PST_DONE);
  EXPECT_EQ(device.next<PeerPrioritize>().table, service.table().number);
  ASSERT_EQ(pst_prefetch(table, page_bytes, 2 * page_bytes, 0, 0), PST_DONE);
  EXPECT_EQ(device.next<PeerPrefetch>().count, 2u);
  auto fetched = std::async(std::launch::async, [&] { return pst_prefetch(table, 0, 1, 1, 20 * second); });
  device.complete(device.next<PeerPrefetch>().request, TicketResult::done);
  EXPECT_EQ(fetched.get(), PST_DONE);
}

TEST_F(Pages, SerialsAndResidencyComeFromTheSharedWords) {
  open();
  ScriptedTable& shown = service.table();
  shown.show(0, PSTW_RESIDENT, 3);
  shown.show(1, PSTW_EVICTING, 4);
  shown.show(2, PSTW_LOADING, 5);
  std::uint64_t serials[8];
  std::size_t count = 0;
  ASSERT_EQ(pst_serials(table, 0, 8 * page_bytes, serials, 8, &count), PST_DONE);
  EXPECT_EQ(count, 8u);
  EXPECT_NE(serials[0], 0u);
  EXPECT_NE(serials[1], 0u);
  EXPECT_NE(serials[0], serials[1]);
  EXPECT_EQ(serials[2], 0u);
  const std::uint64_t before = serials[0];
  shown.show(0, PSTW_RESIDENT, 6);
  ASSERT_EQ(pst_serials(table, 0, 1, serials, 1, &count), PST_DONE);
  EXPECT_NE(serials[0], before);
  EXPECT_EQ(pst_serials(table, 0, 2 * page_bytes, serials, 1, &count), PST_INVALID_ARGUMENT);
  EXPECT_EQ(count, 2u);
  bring_in(5, 2);
  ASSERT_EQ(unpin(5), PST_DONE);
  pst_residency residency{};
  residency.size = sizeof residency;
  ASSERT_EQ(pst_table_residency(table, &residency), PST_DONE);
  EXPECT_EQ(residency.pages, 8u);
  EXPECT_EQ(residency.resident_bytes, 2 * page_bytes);
  EXPECT_EQ(residency.mapped_bytes, 2 * page_bytes);
  EXPECT_EQ(residency.pinned_bytes, page_bytes);
  EXPECT_EQ(residency.private_bytes, 0u);
}

}  // namespace
}  // namespace penstock::test
