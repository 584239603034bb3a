// SPDX-License-Identifier: Apache-2.0
#include "service/control/process_watch.hpp"

#include <atomic>
#include <latch>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/eventually.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<UniqueFd> no_pidfd() { return std::make_shared<UniqueFd>(); }

TEST(ProcessWatch, ReadsTheMemoryOfEachClientInItsRhythmUntilItIsGone) {
  std::atomic<std::uint64_t> anonymous = 4096;
  ProcessWatch watch({.read = [&](const ProcessRef& process) -> Result<ProcessMemory> {
                        if (process.pid == 8) return Error{Errc::not_found, 0, "read"};
                        return ProcessMemory{.anonymous = anonymous.load()};
                      },
                      .period = milliseconds(1)});
  watch.follow(3, 7, no_pidfd());
  watch.follow(4, 8, no_pidfd());
  const auto shows = [&](std::uint64_t bytes) {
    const std::vector<ClientMemoryFigures> all = watch.latest();
    return all.size() == 1 && all[0].client == 3 && all[0].memory.anonymous == bytes;
  };
  EXPECT_TRUE(eventually([&] { return shows(4096); }));
  anonymous = 8192;
  EXPECT_TRUE(eventually([&] { return shows(8192); }));
  watch.forget(3);
  EXPECT_TRUE(watch.latest().empty());
}

TEST(ProcessWatch, WaitsItsPeriodBeforeItReadsAProcessAgain) {
  std::atomic<int> first = 0, second = 0;
  ProcessWatch watch({.read = [&](const ProcessRef& process) -> Result<ProcessMemory> {
    ++(process.pid == 1 ? first : second);
    return ProcessMemory{};
  }});
  watch.follow(1, 1, no_pidfd());
  EXPECT_TRUE(eventually([&] { return first == 1; }));
  watch.follow(2, 2, no_pidfd());
  EXPECT_TRUE(eventually([&] { return second == 1; }));
  EXPECT_EQ(first, 1);
}

TEST(ProcessWatch, RestsTwentyTimesAsLongAsAReadingTookHoweverManyClientsAreDue) {
  std::atomic<Nanoseconds> now{std::chrono::hours(1)};
  std::mutex mutex;
  std::vector<Nanoseconds> begun;  // Guarded by the mutex.
  ProcessWatch::Options options;
  options.clock = [&] { return now.load(); };
  options.read = [&](const ProcessRef&) -> Result<ProcessMemory> {
    const std::lock_guard lock(mutex);
    begun.push_back(now);
    now = now.load() + milliseconds(10);
    return ProcessMemory{};
  };
  ProcessWatch watch(options);
  for (std::uint32_t client = 0; client < 4; ++client) watch.follow(client, 1, no_pidfd());
  for (std::size_t round = 1; round <= 4; ++round) {
    EXPECT_TRUE(eventually([&] { return watch.latest().size() == round; }));  // It has begun to rest.
    now = now.load() + milliseconds(200);
    watch.follow(100, 1, no_pidfd());  // Wakes it.
    watch.forget(100);
  }
  const std::lock_guard lock(mutex);
  for (std::size_t i = 1; i < begun.size(); ++i) EXPECT_GE(begun[i] - begun[i - 1], milliseconds(210));
}

TEST(ProcessWatch, OneThatHangsKeepsNobodyAndOldFiguresAreNone) {
  std::latch entered(1), hang(1);
  std::weak_ptr<UniqueFd> held;
  {
    ProcessWatch watch({.read = [&](const ProcessRef& process) -> Result<ProcessMemory> {
                          if (process.pid == 2) {
                            entered.count_down();
                            hang.wait();
                          }
                          return ProcessMemory{.anonymous = 1};
                        },
                        .age_max = Nanoseconds(0)});
    watch.follow(1, 1, no_pidfd());
    auto own = no_pidfd();
    held = own;
    watch.follow(2, 2, std::move(own));
    entered.wait();
    EXPECT_TRUE(watch.latest().empty());
    EXPECT_FALSE(watch.stop(milliseconds(1)));
    watch.forget(2);
    // It is still used by the call that hangs.
    EXPECT_FALSE(held.expired());
    hang.count_down();
    EXPECT_TRUE(watch.stop(std::chrono::seconds(20)));
  }
  EXPECT_TRUE(eventually([&] { return held.expired(); }));
}

}  // namespace
}  // namespace penstock
