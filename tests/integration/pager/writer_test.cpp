// SPDX-License-Identifier: Apache-2.0
// A device whose frames are filled by penstock-writer, and what clients see when that is killed.
#include <csignal>

#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "tests/integration/pager/node.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random.hpp"
#include "tests/support/remote_host_device.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = 256 * 1024;

std::uint8_t code(TicketResult result) { return static_cast<std::uint8_t>(result); }

class PagingThroughAWriter : public ::testing::Test {
 protected:
  void start(std::uint32_t frames, std::uint32_t deaths_max = 1'000'000) {
    const RemoteFillerOptions filler{
        .tick = std::chrono::milliseconds(10),
        .stall_ticks = 30,
        .start_ticks = 1000,
        .restarts = {.deaths_max = deaths_max, .window_ticks = 1, .back_off_ticks = 1}};
    node_ = std::make_unique<Node>(NodeOptions{
        .frames = frames, .make_device = [&](const HostFrameOptions& options, HeadroomSource& headroom) {
          device_ = std::make_shared<RemoteHostDevice>(options, headroom, filler);
          return SharedDevice{.owner = std::shared_ptr<FrameOwner>(device_, &device_->owner()),
                              .writer = std::shared_ptr<FrameWriter>(device_, &device_->writer())};
        }});
  }
  // Session 1 on table 1, a file of so many pages and a bit.
  void open(std::uint32_t pages) {
    content_ = node_->make_file("weights", pages * frame - 1'000);
    pages_ = node_->open_identity(1, "weights");
    client_ = node_->connect(1, 8 * frame);
    node_->attach(1, 1);
  }
  PagerStats const& stats() { return node_->thread->stats(); }
  bool shows(std::uint32_t page) { return equals_page(client_->bytes(1, page), content_, page); }
  void signal(int number) {
    if (const pid_t pid = device_->stats().pid; pid != 0) ::kill(pid, number);
  }
  // Until it is done: each loss may fail a fault, but not for long.
  bool fault(std::uint32_t page) {
    return eventually([&] {
      const PeerCompletion completion = client_->fault(1, page);
      if (completion.result == code(TicketResult::done)) return true;
      EXPECT_EQ(completion.reason, FailureKind::device_unhealthy);
      ++refused_;
      return false;
    });
  }

  std::shared_ptr<RemoteHostDevice> device_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<WireClient> client_;
  std::vector<std::byte> content_;
  std::uint32_t pages_ = 0;
  int refused_ = 0;
};

TEST_F(PagingThroughAWriter, DeliversEveryByteThroughASmallDevice) {
  start(6);
  open(20);
  for (std::uint32_t page = 0; page < pages_; ++page) {
    ASSERT_EQ(client_->fault(1, page).result, code(TicketResult::done));
    EXPECT_TRUE(shows(page)) << "page " << page;
    client_->serve(0);
  }
  EXPECT_EQ(stats().condition, DeviceCondition::ready);
  EXPECT_EQ(device_->stats().losses, 0u)
      << static_cast<int>(device_->stats().last_loss.load()) << " " << device_->stats().last_detail.load();
}

TEST_F(PagingThroughAWriter, ConvertsOnTheWay) {
  start(16);
  const std::vector<std::byte> stored = node_->make_file("weights", 2 * frame);
  const std::uint64_t file_bytes = stored.size();
  auto layout = PageLayout::assembled({{.table_offset = 0,
                                        .table_bytes = 2 * file_bytes,
                                        .source = {0, file_bytes},
                                        .stored = Dtype::bf16,
                                        .wanted = Dtype::f32}},
                                      {&file_bytes, 1}, frame);
  ASSERT_TRUE(layout.has_value());
  content_.resize(2 * file_bytes);
  convert(Dtype::bf16, stored, Dtype::f32, content_, 1.0f);
  pages_ = node_->open_table(1, {.layout = *layout, .files = {node_->open("weights")}}, TableKind::assembled);
  client_ = node_->connect(1);
  node_->attach(1, 1);
  ASSERT_EQ(client_->fault(1, 0, pages_).result, code(TicketResult::done));
  for (std::uint32_t page = 0; page < pages_; ++page) EXPECT_TRUE(shows(page)) << "page " << page;
}

TEST_F(PagingThroughAWriter, NeverShowsAnythingButTheFileWhileWritersAreKilled) {
  start(8);
  open(24);
  Random random(7);
  for (int round = 0; round < 120; ++round) {
    const auto page = static_cast<std::uint32_t>(random.below(pages_));
    if (round % 6 == 3) {
      // In the middle of a load: the fault is under way when the writer is stopped, or killed.
      const std::uint64_t request = client_->start_fault(1, page);
      signal(round % 12 == 3 ? SIGKILL : SIGSTOP);
      signal(SIGKILL);
      static_cast<void>(client_->wait_for(request));
    }
    ASSERT_TRUE(client_->has(1, page) || fault(page));
    ASSERT_TRUE(shows(page)) << "page " << page;
    client_->serve(0);
  }
  EXPECT_GT(device_->stats().losses, 10u);
  EXPECT_TRUE(eventually([&] { return stats().condition == DeviceCondition::ready; }));
  EXPECT_LE(stats().used_bytes.load(), 8 * frame);
  EXPECT_LE(device_->host_owner().stats().alive, 8u);
  EXPECT_TRUE(eventually([&] { return stats().slots_busy == 0u; }));
}

TEST_F(PagingThroughAWriter, WhatIsResidentOutlivesAWriterThatHangs) {
  start(8);
  open(4);
  ASSERT_EQ(client_->fault(1, 0, 2).result, code(TicketResult::done));
  signal(SIGSTOP);
  // Two pages wait for the stopped writer until the watchdog has replaced it.
  EXPECT_TRUE(fault(2));
  EXPECT_TRUE(fault(3));
  for (std::uint32_t page = 0; page < 4; ++page) EXPECT_TRUE(shows(page)) << "page " << page;
  EXPECT_EQ(device_->stats().last_loss, WriterLoss::stalled);
  EXPECT_EQ(stats().writer_losses, 1u);
}

TEST_F(PagingThroughAWriter, PrivateCopiesAreMadeOfPagesThatALostWriterFilled) {
  start(8);
  open(2);
  node_->open_private(2, TableKind::overlay, pages_, 1, 1);
  node_->attach(1, 2);
  ASSERT_EQ(client_->fault(1, 0, 2).result, code(TicketResult::done));
  signal(SIGKILL);
  ASSERT_TRUE(
      eventually([&] { return stats().writer_losses == 1u && stats().condition == DeviceCondition::ready; }));
  const PeerCompletion made = client_->make_private(1, 0);
  ASSERT_EQ(made.result, code(TicketResult::done)) << failure_kind_name(made.reason);
  EXPECT_TRUE(equals_page(client_->bytes(2, 0), content_, 0));
}

TEST_F(PagingThroughAWriter, AQuarantineRefusesLoadsAndKeepsWhatIsThere) {
  start(8, 1);
  open(4);
  ASSERT_EQ(client_->fault(1, 0).result, code(TicketResult::done));
  signal(SIGKILL);
  ASSERT_TRUE(eventually([&] { return stats().condition == DeviceCondition::quarantined; }));
  const PeerCompletion refused = client_->fault(1, 1);
  EXPECT_EQ(refused.result, code(TicketResult::offloaded));
  EXPECT_EQ(refused.reason, FailureKind::device_unhealthy);
  EXPECT_TRUE(shows(0));
  const auto other = node_->connect(2);
  node_->attach(2, 1);
  EXPECT_EQ(other->fault(1, 0).result, code(TicketResult::done));
  EXPECT_TRUE(equals_page(other->bytes(1, 0), content_, 0));
  node_->stop();
}

}  // namespace
}  // namespace penstock::test
