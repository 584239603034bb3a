// SPDX-License-Identifier: Apache-2.0
// The library against the real service: bytes, sharing, paging, private pages, ends. The same on host memory and on each
// fake GPU.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/integration/client/served.hpp"
#include "tests/support/random.hpp"
#include "tests/support/safetensors_file.hpp"

namespace penstock::test {
namespace {

// A fault on a GPU goes through the writer's process several times.
int fewer_on_gpu(int rounds) { return RunDevice::get().on_gpu() ? rounds / 5 : rounds; }

TEST_F(Served, ShowsTheBytesOfTheFile) {
  start();
  Client client(service->socket());
  client.open(write("m.safetensors", 20));
  ASSERT_EQ(client.size, content.size() + client.shift);
  ASSERT_EQ(client.pin(0, client.size), PST_DONE) << client.error();
  EXPECT_TRUE(is_the_file(client, 0, client.size));
  EXPECT_EQ(client.unpin(0, client.size), PST_DONE);
  pst_checkpoint_info info{};
  info.size = sizeof info;
  ASSERT_EQ(pst_checkpoint_describe(client.checkpoint, &info), PST_DONE);
  EXPECT_EQ(info.tensors, 20u);
}

TEST_F(Served, ASecondClientGetsTheSameFrames) {
  start();
  const std::string file = write("m.safetensors", 20);
  Client one(service->socket()), two(service->socket());
  one.open(file);
  two.open(file);
  ASSERT_EQ(one.pin(0, one.size), PST_DONE) << one.error();
  ASSERT_EQ(two.pin(0, two.size, second), PST_DONE) << two.error();
  EXPECT_TRUE(is_the_file(two, 0, two.size));
  char* json = nullptr;
  ASSERT_EQ(pst_query(one.client, "status", "{}", &json), PST_DONE);
  const std::string resident = "\"resident_bytes\":" + std::to_string((two.size + page - 1) / page * page);
  EXPECT_NE(std::string(json).find(resident), std::string::npos) << json;
  pst_release_text(json);
}

TEST_F(Served, ATableThatIsOpenedAgainHasNothingOfTheClosedOne) {
  start(8 * page);
  const std::string file = write("m.safetensors", 20);  // 15 pages.
  Client other(service->socket());
  other.open(file);
  std::atomic<bool> over = false;
  // Somebody else takes pages all the time, so that revokes and grants are under way while the table is closed.
  std::thread busy([&] {
    for (std::uint64_t at = 0; !over; at = (at + page) % (14 * page)) {
      if (other.pin(at, page) == PST_DONE) other.unpin(at, page);
    }
  });
  Client client(service->socket(), false);
  ASSERT_EQ(pst_open(client.client, file.c_str(), &client.checkpoint), PST_DONE) << client.error();
  Random random(1);
  for (int i = 0, rounds = fewer_on_gpu(300); i < rounds && !HasFailure(); ++i) {
    pst_table_options options{};
    options.size = sizeof options;
    ASSERT_EQ(pst_table_open(client.checkpoint, &options, &client.table), PST_DONE) << client.error();
    client.look();
    const std::uint64_t at = random.below(14) * page;
    const pst_status status = client.pin(at, page);
    ASSERT_TRUE(status == PST_DONE || status == PST_OFFLOADED) << client.error();
    if (status == PST_DONE) {
      EXPECT_TRUE(is_the_file(client, at, page));
      EXPECT_EQ(client.unpin(at, page), PST_DONE);
    }
    pst_table_close(client.table);
  }
  over = true;
  busy.join();
}

TEST_F(Served, ThreadsPageThroughADeviceThatIsTooSmall) {
  start(16 * page);
  const std::string file = write("m.safetensors", 40);  // 30 pages.
  Client one(service->socket()), two(service->socket());
  one.open(file);
  two.open(file, PST_COOPERATIVE);
  std::atomic<int> wrong = 0, done = 0;
  const auto use = [&](const Client& client, std::uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < fewer_on_gpu(150); ++i) {
      const std::uint64_t offset = random.below(client.size);
      const std::uint64_t count = std::min<std::uint64_t>(client.size - offset, 1 + random.below(2 * page));
      const pst_status status = client.pin(offset, count);
      if (status == PST_OFFLOADED) continue;
      if (status != PST_DONE) {
        ++wrong;
        ADD_FAILURE() << pst_status_name(status) << ": " << client.error();
        continue;
      }
      if (!is_the_file(client, offset, count) || client.unpin(offset, count) != PST_DONE) ++wrong;
      ++done;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) threads.emplace_back([&, t] { use(t % 2 == 0 ? one : two, t + 1); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(done, fewer_on_gpu(300));
  EXPECT_EQ(one.residency().pinned_bytes + two.residency().pinned_bytes, 0u);
}

// A range of more pages than one message brings, again and again, while another thread of the process uses pages of it
// that are there before the rest is.
TEST_F(Served, AThreadUsesPagesOfARangeThatIsUnderWay) {
  start(320 * mib);
  const std::string file = write("m.safetensors", 180);  // 135 pages.
  Client client(service->socket());
  client.open(file);
  std::atomic<bool> over = false;
  std::thread other([&] {
    Random random(3);
    while (!over && !HasFailure()) {
      const std::uint64_t at = random.below(client.size / page) * page;
      ASSERT_EQ(client.pin(at, page), PST_DONE) << client.error();
      EXPECT_TRUE(is_the_file(client, at, 4096));
      EXPECT_EQ(client.unpin(at, page), PST_DONE);
    }
  });
  for (int round = 0; round < 8 && !HasFailure(); ++round) {
    ASSERT_EQ(client.pin(0, client.size), PST_DONE) << client.error();
    EXPECT_EQ(client.unpin(0, client.size), PST_DONE);
    std::uint64_t freed = 0;
    ASSERT_EQ(pst_table_free(client.table, client.size, 30 * second, &freed), PST_DONE) << client.error();
  }
  over = true;
  other.join();
}

// After its fault it says nothing any more, not even that it has mapped the page: nobody waits for that.
TEST_F(Served, AnIdleClientKeepsNoPageFromAnother) {
  start(4 * page);
  const std::string file = write("m.safetensors", 20);
  Client one(service->socket()), two(service->socket());
  one.open(file);
  two.open(file);
  for (std::uint64_t round = 0; round < 3; ++round) {
    ASSERT_EQ(one.pin(0, 4 * page), PST_DONE) << one.error();
    EXPECT_TRUE(is_the_file(one, 0, 4 * page));
    ASSERT_EQ(one.unpin(0, 4 * page), PST_DONE);
    rest(one);
    ASSERT_EQ(two.pin(8 * page, 4 * page), PST_DONE) << two.error();
    EXPECT_TRUE(is_the_file(two, 8 * page, 4 * page));
    ASSERT_EQ(two.unpin(8 * page, 4 * page), PST_DONE);
    rest(two);
  }
}

TEST_F(Served, APageMadePrivateIsWritableHereAndTheFilesElsewhere) {
  start();
  const std::string file = write("m.safetensors", 4);
  Client one(service->socket()), two(service->socket());
  one.open(file);
  two.open(file);
  ASSERT_EQ(one.pin(0, 2 * page), PST_DONE) << one.error();
  ASSERT_EQ(two.pin(0, 2 * page), PST_DONE) << two.error();
  ASSERT_EQ(pst_make_private(one.table, page, 1, 30 * second), PST_DONE) << one.error();
  EXPECT_TRUE(is_the_file(one, 0, 2 * page));
  const std::uint8_t before = one.read(page + 5, 1)[0];
  ASSERT_TRUE(RunDevice::get().write(one.bytes + page + 5, before ^ 0xff));
  EXPECT_FALSE(is_the_file(one, page, page));
  EXPECT_TRUE(is_the_file(two, 0, 2 * page));
  EXPECT_EQ(one.residency().private_bytes, page);
  ASSERT_EQ(one.unpin(0, 2 * page), PST_DONE);
  rest(one);
  std::uint64_t freed = 0;
  ASSERT_EQ(pst_free(one.client, nullptr, 1, 10 * second, &freed), PST_DONE) << one.error();
  EXPECT_GE(freed, page);
  ASSERT_EQ(one.pin(page, page), PST_DONE) << one.error();
  EXPECT_TRUE(is_the_file(one, page, page));
}

TEST_F(Served, AnonymousPagesStartZeroAndKeepWhatIsWritten) {
  start();
  Client client(service->socket());
  ASSERT_EQ(pst_table_anonymous(client.client, 3 * page, nullptr, &client.table), PST_DONE) << client.error();
  client.look();
  ASSERT_EQ(client.pin(0, 3 * page), PST_DONE) << client.error();
  const auto fresh = client.read(0, 3 * page);
  EXPECT_TRUE(std::all_of(fresh.begin(), fresh.end(), [](std::uint8_t byte) { return byte == 0; }));
  ASSERT_TRUE(RunDevice::get().write(client.bytes + 2 * page, 7));
  std::uint64_t before[3] = {}, after[3] = {};
  std::size_t count = 0;
  ASSERT_EQ(pst_serials(client.table, 0, 3 * page, before, 3, &count), PST_DONE);
  EXPECT_NE(before[2], 0u);
  ASSERT_EQ(client.unpin(0, 3 * page), PST_DONE);
  ASSERT_EQ(client.pin(2 * page, 1), PST_DONE);
  EXPECT_EQ(client.read(2 * page, 1)[0], 7);
  ASSERT_EQ(client.unpin(2 * page, 1), PST_DONE);
  rest(client);
  std::uint64_t freed = 0;
  ASSERT_EQ(pst_free(client.client, nullptr, 3 * page, 10 * second, &freed), PST_DONE) << client.error();
  EXPECT_EQ(freed, 3 * page);
  ASSERT_EQ(client.pin(2 * page, 1), PST_DONE) << client.error();
  EXPECT_EQ(client.read(2 * page, 1)[0], 0);
  ASSERT_EQ(pst_serials(client.table, 0, 3 * page, after, 3, &count), PST_DONE);
  EXPECT_NE(after[2], before[2]);
}

TEST_F(Served, AnAssembledTableShowsWhatItsManifestSays) {
  start();
  content = safetensors_bytes({{"w", Dtype::u8, {4096}}, {"h", Dtype::f32, {256}}});
  const std::string file = service->folder().write("a.safetensors", content);
  Client client(service->socket());
  ASSERT_EQ(pst_open(client.client, file.c_str(), &client.checkpoint), PST_DONE) << client.error();
  std::uint32_t w = 0;
  ASSERT_EQ(pst_tensor_find(client.checkpoint, "w", &w), PST_DONE);
  pst_tensor tensor{};
  tensor.size = sizeof tensor;
  ASSERT_EQ(pst_tensor_at(client.checkpoint, w, &tensor), PST_DONE);
  // The second half first, then the first one.
  const pst_manifest_entry entries[] = {
      {2048, tensor.offset, 2048, 0, 0, "U8", "U8", UINT64_MAX},
      {0, tensor.offset + 2048, 2048, 0, 0, "U8", "U8", UINT64_MAX},
  };
  ASSERT_EQ(pst_table_assemble(client.client, &client.checkpoint, 1, entries, 2, nullptr, &client.table),
            PST_DONE)
      << client.error();
  client.look();
  ASSERT_EQ(client.pin(0, client.size), PST_DONE) << client.error();
  const auto seen = client.read(0, 4096);
  EXPECT_EQ(std::memcmp(seen.data(), content.data() + tensor.offset + 2048, 2048), 0);
  EXPECT_EQ(std::memcmp(seen.data() + 2048, content.data() + tensor.offset, 2048), 0);
  const pst_manifest_entry wrong[] = {{0, 0, 16, 3, 0, "U8", "U8", UINT64_MAX}};
  pst_table* none = nullptr;
  EXPECT_EQ(pst_table_assemble(client.client, &client.checkpoint, 1, wrong, 1, nullptr, &none),
            PST_INVALID_ARGUMENT);
}

TEST_F(Served, AKilledServiceLeavesWhatIsMappedAndIsFoundAgain) {
  start();
  Client client(service->socket());
  client.open(write("m.safetensors", 8));
  ASSERT_EQ(client.pin(0, page), PST_DONE) << client.error();
  service->kill();
  EXPECT_TRUE(is_the_file(client, 0, page));
  EXPECT_EQ(client.pin(0, page, 0), PST_DONE);
  EXPECT_EQ(client.pin(2 * page, page), PST_DISCONNECTED) << client.error();
  service->start();
  ASSERT_EQ(client.pin(0, client.size), PST_DONE) << client.error();
  EXPECT_TRUE(is_the_file(client, 0, client.size));
  EXPECT_EQ(client.unpin(0, client.size), PST_DONE);
  EXPECT_EQ(client.unpin(0, page), PST_DONE);
  EXPECT_EQ(client.unpin(0, page), PST_DONE);
  EXPECT_EQ(client.unpin(0, page), PST_UNPINNED);
}

TEST_F(Served, AStoppedServiceIsWaitedForNoLongerThanAsked) {
  start();
  Client client(service->socket());
  client.open(write("m.safetensors", 8));
  ASSERT_EQ(client.pin(0, page), PST_DONE) << client.error();
  service->pause();
  EXPECT_EQ(client.pin(2 * page, page, second / 5), PST_DEADLINE);
  EXPECT_EQ(client.pin(0, page, 0), PST_DONE);
  service->go_on();
  EXPECT_EQ(client.pin(2 * page, page), PST_DONE) << client.error();
}

TEST_F(Served, TwoClientsInOneProcessComeAndGo) {
  start();
  const std::string file = write("m.safetensors", 8);
  for (int i = 0; i < 20; ++i) {
    Client one(service->socket());
    Client two(service->socket());
    one.open(file);
    two.open(file);
    auto other = std::async(std::launch::async, [&] { return two.pin(0, two.size); });
    ASSERT_EQ(one.pin(0, one.size), PST_DONE) << one.error();
    ASSERT_EQ(other.get(), PST_DONE) << two.error();
    ASSERT_TRUE(is_the_file(two, page, page));
  }
}

}  // namespace
}  // namespace penstock::test
