// SPDX-License-Identifier: Apache-2.0
// Pins of several threads while pages are taken away: a page that is pinned is mapped, and shows one content.
#include "tests/unit/client/scripted_client.hpp"

#include <atomic>
#include <vector>

#include "tests/unit/client/scripted_pager.hpp"

namespace penstock::test {
namespace {

constexpr std::uint32_t page_count = 12;

class PinnedByThreads : public ScriptedClient {
 protected:
  // Pins ranges and looks at each page twice; a page that isn't mapped ends the process.
  void use(std::uint64_t seed, int rounds) {
    Random random(seed);
    for (int i = 0; i < rounds; ++i) {
      const auto first = static_cast<std::uint32_t>(random.below(page_count));
      const auto count =
          static_cast<std::uint32_t>(1 + random.below(std::min<std::uint64_t>(3, page_count - first)));
      const pst_status status = pin(first, count);
      if (status != PST_DONE) {
        ++wrong_;
        ADD_FAILURE() << pst_status_name(status) << ": " << error();
        continue;
      }
      std::uint8_t seen[3];
      for (std::uint32_t p = 0; p < count; ++p) seen[p] = bytes[(first + p) * page_bytes];
      if (random.below(4) == 0) std::this_thread::yield();
      for (std::uint32_t p = 0; p < count; ++p) {
        const std::uint8_t* const page = const_cast<const std::uint8_t*>(bytes) + (first + p) * page_bytes;
        if (page[page_bytes - 1] != seen[p]) ++wrong_;
      }
      if (unpin(first, count) != PST_DONE) ++wrong_;
      if (random.below(64) == 0) {
        std::uint64_t freed = 0;
        if (pst_free(client, nullptr, page_bytes, second, &freed) != PST_DONE) ++wrong_;
      }
      if (random.below(16) == 0 && pst_run_revokes(client) != PST_DONE) ++wrong_;
    }
  }
  void run(std::uint64_t seed, int threads_count, int rounds) {
    ScriptedPager pager(service.device(), service.table(), seed);
    std::atomic<int> running = threads_count;
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_count; ++t) {
      threads.emplace_back([&, t] {
        use(seed * 100 + static_cast<std::uint64_t>(t), rounds);
        --running;
      });
    }
    pager.run([&] { return running == 0; });
    EXPECT_EQ(pager.broken_rule(), "");
    if (!pager.broken_rule().empty()) service.die();  // So that nobody waits for a pager that stopped.
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong_, 0) << error();
    EXPECT_GT(pager.acked(), 0u);
    answered_later_ = pager.later();
    busy_ = pager.busy();
    for (std::uint32_t page = 0; page < page_count; ++page) EXPECT_EQ(service.table().pin_count(page), 0u);
  }

  std::atomic<int> wrong_ = 0;
  std::uint64_t answered_later_ = 0, busy_ = 0;
};

TEST_F(PinnedByThreads, PagesStayMappedWhileTheAgentAnswersRevokes) {
  service.pages = page_count;
  open();
  run(1, 4, 400);
  EXPECT_GT(busy_, 0u);
  EXPECT_EQ(answered_later_, 0u);
}

TEST_F(PinnedByThreads, PagesStayMappedWhileThreadsCooperate) {
  service.pages = page_count;
  open(PST_COOPERATIVE);
  run(2, 4, 400);
  EXPECT_GT(answered_later_, 0u);
}

TEST_F(PinnedByThreads, OneThreadAlone) {
  service.pages = page_count;
  open();
  run(3, 1, 1000);
}

}  // namespace
}  // namespace penstock::test
