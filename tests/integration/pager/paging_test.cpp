// SPDX-License-Identifier: Apache-2.0
// Real frames, real files, real sockets: what clients see.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "dataplane/kernels/convert.hpp"
#include "tests/integration/pager/node.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

constexpr std::uint64_t frame = 256 * 1024;

std::uint8_t code(TicketResult result) { return static_cast<std::uint8_t>(result); }

class EachReader : public ::testing::TestWithParam<ReaderOptions::Io> {};

TEST_P(EachReader, DeliversEveryByteOfAFile) {
  Node node({.io = GetParam()});
  const std::vector<std::byte> content = node.make_file("weights", 20 * frame + 54'321);
  const std::uint32_t pages = node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  EXPECT_EQ(client->fault(1, 0, pages).result, code(TicketResult::done));
  for (std::uint32_t page = 0; page < pages; ++page) {
    EXPECT_TRUE(equals_page(client->bytes(1, page), content, page)) << "page " << page;
  }
}

INSTANTIATE_TEST_SUITE_P(Paging, EachReader,
                         ::testing::Values(ReaderOptions::Io::automatic, ReaderOptions::Io::pread));

TEST(Paging, ServesTwoClientsFromADeviceThatIsSmallerThanTheFile) {
  Node node({.frames = 12});
  const std::vector<std::byte> content = node.make_file("weights", 40 * frame + 5);
  const std::uint32_t pages = node.open_identity(1, "weights");
  const auto first = node.connect(1), second = node.connect(2);
  node.attach(1, 1);
  node.attach(2, 1);
  std::atomic<int> finished{0};
  const auto fault_at_random = [&](WireClient& client, std::uint64_t seed) {
    Random random(seed);
    for (int round = 0; round < 300; ++round) {
      const auto page = static_cast<std::uint32_t>(random.below(pages));
      while (!client.has(1, page)) ASSERT_EQ(client.fault(1, page).result, code(TicketResult::done));
      ASSERT_TRUE(equals_page(client.bytes(1, page), content, page)) << "page " << page;
      client.serve(0);
    }
  };
  const auto use = [&](WireClient& client, std::uint64_t seed) {
    fault_at_random(client, seed);
    // It goes on answering revokes until the other has finished, too.
    ++finished;
    while (finished.load() < 2) client.serve(10);
  };
  std::thread other([&] { use(*second, 2); });
  use(*first, 1);
  other.join();
  EXPECT_LE(node.thread->stats().used_bytes.load(), 12 * frame);
  EXPECT_TRUE(eventually([&] {
    return node.thread->stats().evictions[static_cast<std::size_t>(EvictReason::fault)].load() > 100u;
  }));
  EXPECT_LE(node.device->owner().stats().alive, 12u);
}

TEST(Paging, LoadsOnceWhatTwoClientsFaultAtOnce) {
  Node node;
  const std::vector<std::byte> content = node.make_file("weights", 16 * frame);
  const std::uint32_t pages = node.open_identity(1, "weights");
  const auto first = node.connect(1), second = node.connect(2);
  node.attach(1, 1);
  node.attach(2, 1);
  const std::uint64_t of_first = first->start_fault(1, 0, pages),
                      of_second = second->start_fault(1, 0, pages);
  EXPECT_EQ(first->wait_for(of_first).result, code(TicketResult::done));
  EXPECT_EQ(second->wait_for(of_second).result, code(TicketResult::done));
  for (std::uint32_t page = 0; page < pages; ++page) {
    EXPECT_TRUE(equals_page(first->bytes(1, page), content, page));
    EXPECT_EQ(first->generation(1, page), second->generation(1, page));
  }
  const PagerStats& stats = node.thread->stats();
  EXPECT_EQ(stats.direct_bytes.load() + stats.cached_bytes.load(), content.size());
  EXPECT_EQ(stats.resident_bytes.load(), content.size());
}

TEST(Paging, LetsNobodyWriteToASharedPage) {
  Node node;
  node.make_file("weights", frame);
  node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  client->fault(1, 0);
  ASSERT_TRUE(client->last_descriptor_seals.has_value());
  constexpr int wanted = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(*client->last_descriptor_seals & wanted, wanted);
}

// Two clients on table 1 of the file; table 2 is the first one's overlay of it.
std::pair<std::unique_ptr<WireClient>, std::unique_ptr<WireClient>> share_with_overlay(Node& node) {
  const std::uint32_t pages = node.open_identity(1, "weights");
  auto client = node.connect(1), other = node.connect(2);
  node.attach(1, 1);
  node.attach(2, 1);
  node.open_private(2, TableKind::overlay, pages, 1, 1);
  node.attach(1, 2);
  return {std::move(client), std::move(other)};
}

TEST(Paging, MakesAPageThatOneClientMayWriteTo) {
  Node node;
  const std::vector<std::byte> content = node.make_file("weights", 3 * frame);
  const auto [client, other] = share_with_overlay(node);
  ASSERT_EQ(client->make_private(1, 1).result, code(TicketResult::done));
  EXPECT_TRUE(equals_page(client->bytes(2, 1), content, 1));
  std::memset(client->bytes(2, 1).data(), 0x5a, frame);
  ASSERT_EQ(other->fault(1, 1).result, code(TicketResult::done));
  EXPECT_TRUE(equals_page(other->bytes(1, 1), content, 1));
  EXPECT_TRUE(eventually([&] { return node.thread->stats().private_bytes.load() == frame; }));
}

TEST(Paging, GrantsAPageWhileItIsCopiedForSomebodyElse) {
  Node node;
  const std::vector<std::byte> content = node.make_file("weights", 3 * frame);
  const auto [client, other] = share_with_overlay(node);
  ASSERT_EQ(client->fault(1, 1).result, code(TicketResult::done));
  node.faulty->hold_fences();
  const std::uint64_t request = client->start_make_private(1, 1);
  ASSERT_TRUE(eventually([&] { return node.faulty->copies() > 0; }));
  ASSERT_EQ(other->fault(1, 1).result, code(TicketResult::done));
  EXPECT_TRUE(equals_page(other->bytes(1, 1), content, 1));
  node.faulty->release_fences();
  EXPECT_EQ(client->wait_for(request).result, code(TicketResult::done));
  EXPECT_TRUE(equals_page(client->bytes(2, 1), content, 1));
}

TEST(Paging, AnswersQuotaWhenAClientHasItsPrivateFrames) {
  Node node;
  const auto client = node.connect(1, 2 * frame);
  node.open_private(5, TableKind::anonymous, 8, 1);
  node.attach(1, 5);
  EXPECT_EQ(client->fault(5, 0, 2).result, code(TicketResult::done));
  const PeerCompletion refused = client->fault(5, 2, 1);
  EXPECT_NE(refused.result, code(TicketResult::done));
  EXPECT_EQ(refused.reason, FailureKind::quota);
}

TEST(Paging, ConvertsAnAssembledTable) {
  Node node;
  const std::vector<std::byte> content = node.make_file("weights", 2 * frame + 1'000);
  const std::shared_ptr<CheckpointFile> file = node.open("weights");
  // Random bytes as bf16 have NaNs of all kinds; the reference says what becomes of them.
  const std::uint64_t elements = frame / 2 + 333;
  const std::uint64_t file_bytes = content.size();
  auto layout = PageLayout::assembled({{.table_offset = 512,
                                        .table_bytes = 4 * elements,
                                        .source = {102, 2 * elements},
                                        .stored = Dtype::bf16,
                                        .wanted = Dtype::f32,
                                        .scale = 0.5f,
                                        .scale_source = std::nullopt}},
                                      {&file_bytes, 1}, frame);
  ASSERT_TRUE(layout.has_value());
  std::vector<std::byte> expected(layout->table_bytes());
  convert(Dtype::bf16, std::span(content).subspan(102, 2 * elements), Dtype::f32,
          std::span(expected).subspan(512, 4 * elements), 0.5f);
  const std::uint32_t pages = node.open_table(1, {.layout = *layout, .files = {file}}, TableKind::assembled);
  const auto client = node.connect(1);
  node.attach(1, 1);
  ASSERT_EQ(client->fault(1, 0, pages).result, code(TicketResult::done));
  for (std::uint32_t page = 0; page < pages; ++page) {
    EXPECT_TRUE(equals_page(client->bytes(1, page), expected, page)) << "page " << page;
  }
}

TEST(Paging, TakesNoPinnedPageAndTakesItOnceItIsIdle) {
  Node node({.frames = 4});
  node.make_file("weights", 8 * frame);
  node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  ASSERT_EQ(client->fault(1, 0, 4).result, code(TicketResult::done));
  for (std::uint32_t page = 0; page < 4; ++page) client->pin(1, page);
  EXPECT_EQ(client->fault(1, 4).result, code(TicketResult::offloaded));
  EXPECT_EQ(client->mapped(), 4u);
  EXPECT_GE(client->busy, 1u);
  for (std::uint32_t page = 0; page < 4; ++page) client->unpin(1, page);
  EXPECT_EQ(client->fault(1, 4).result, code(TicketResult::done));
  EXPECT_EQ(client->mapped(), 4u);
}

TEST(Paging, CountsPinsThatTheClientShows) {
  Node node;
  node.make_file("weights", 2 * frame);
  node.open_identity(1, "weights");
  const auto client = node.connect(1);
  node.attach(1, 1);
  client->fault(1, 0, 2);
  const auto region = Mapping::shared(node.pins[1]->fd(), node.pins[1]->bytes(), Access::read_write);
  ASSERT_TRUE(region);
  auto* words = reinterpret_cast<std::atomic<std::uint64_t>*>(region->data());
  words[1].store(pin_state_mapped << pin_state_shift | 2);
  EXPECT_TRUE(eventually([&] { return node.thread->stats().pinned_bytes.load() == frame; }));
  words[1].store(pin_state_mapped << pin_state_shift);
  EXPECT_TRUE(eventually([&] { return node.thread->stats().pinned_bytes.load() == 0; }));
}

TEST(Paging, EvictsForTheServiceAndLoadsAgain) {
  Node node;
  const std::vector<std::byte> content = node.make_file("weights", 6 * frame);
  node.open_identity(1, "weights");
  const RequestDone loaded = node.ask(mail::LoadTable{.table = TableId{1}});
  EXPECT_EQ(loaded.bytes, content.size());
  EXPECT_EQ(loaded.direct_bytes + loaded.cached_bytes, content.size());
  EXPECT_EQ(node.ask(mail::EvictTable{.table = TableId{1}}).bytes, content.size());
  EXPECT_EQ(node.ask(mail::LoadTable{.table = TableId{1}}).bytes, content.size());
  EXPECT_EQ(node.ask(mail::CloseTable{.table = TableId{1}}).result, TicketResult::done);
  EXPECT_TRUE(eventually([&] { return node.device->owner().stats().alive == 0; }));
}

}  // namespace
}  // namespace penstock::test
