// SPDX-License-Identifier: Apache-2.0
#include "service/policy/host_budget.hpp"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "tests/support/random.hpp"

namespace penstock {
namespace {

constexpr SessionId one{1}, two{2};

TEST(HostBudget, CountsBuffersPerSessionAndUser) {
  HostBudget budget({.budget_bytes = 100 * mib});
  budget.open_session(one, 1000);
  budget.open_session(two, 1000);
  const HostBufferId a = *budget.allocate(one, 10 * mib);
  const HostBufferId b = *budget.allocate(two, 20 * mib);
  EXPECT_NE(a, b);
  EXPECT_EQ(budget.used_bytes(), 30 * mib);
  EXPECT_EQ(budget.session_bytes(one), 10 * mib);
  EXPECT_EQ(budget.user_bytes(1000), 30 * mib);
  EXPECT_EQ(*budget.truncate(two, b, 5 * mib), 15 * mib);
  EXPECT_EQ(*budget.truncate(two, b, 5 * mib), 0u);
  EXPECT_EQ(*budget.free(one, a), 10 * mib);
  EXPECT_EQ(budget.used_bytes(), 5 * mib);
  EXPECT_EQ(budget.close_session(two), 5 * mib);
  EXPECT_EQ(budget.close_session(two), 0u);
  EXPECT_EQ(budget.used_bytes(), 0u);
  budget.verify();
}

TEST(HostBudget, RefusesWithKindAndNumbers) {
  HostBudget budget({.budget_bytes = 100 * mib, .per_user_bytes = 60 * mib, .buffers_per_session_max = 2});
  budget.open_session(one, 1000);
  budget.open_session(two, 1001);
  const auto refused = [&](SessionId session, std::uint64_t bytes, std::uint64_t headroom = UINT64_MAX) {
    const auto answer = budget.allocate(session, bytes, headroom);
    EXPECT_FALSE(answer);
    return answer ? Failure{} : answer.error();
  };
  EXPECT_EQ(refused(one, 101 * mib).kind, FailureKind::never_fits);
  EXPECT_EQ(refused(one, 101 * mib).message, "101 MiB of locked host memory can never fit in 100 MiB");
  EXPECT_EQ(refused(one, 61 * mib).message, "needs 61 MiB, the quota leaves 60 MiB of 60 MiB to user 1000");
  EXPECT_EQ(refused(one, 61 * mib).kind, FailureKind::quota);
  ASSERT_TRUE(budget.allocate(one, 60 * mib));
  EXPECT_EQ(refused(two, 50 * mib).kind, FailureKind::exhausted);
  EXPECT_EQ(refused(two, 50 * mib).message, "needs 50 MiB, free 40 MiB of 100 MiB of locked host memory");
  EXPECT_EQ(refused(two, 10 * mib, 9 * mib).kind, FailureKind::headroom);
  EXPECT_EQ(refused(two, 0).kind, FailureKind::invalid_argument);
  EXPECT_EQ(refused(SessionId{9}, 1).kind, FailureKind::not_found);
  ASSERT_TRUE(budget.allocate(two, 1) && budget.allocate(two, 1));
  EXPECT_EQ(refused(two, 1).kind, FailureKind::fd_limit);
  EXPECT_EQ(refused(one, UINT64_MAX).kind, FailureKind::never_fits);
}

TEST(HostBudget, ABudgetBelowItsUseOnlyStopsNewBuffers) {
  HostBudget budget({.budget_bytes = 100 * mib});
  budget.open_session(one, 0);
  const HostBufferId buffer = *budget.allocate(one, 80 * mib);
  budget.set_budget(50 * mib);
  EXPECT_EQ(budget.allocate(one, 1).error().kind, FailureKind::exhausted);
  EXPECT_EQ(*budget.truncate(one, buffer, 10 * mib), 70 * mib);
  EXPECT_TRUE(budget.allocate(one, 40 * mib));
}

TEST(CaseG04, MistakesWithHostBuffersChangeNothing) {
  HostBudget budget({.budget_bytes = 8192 * mib});
  test::Random random(44);
  budget.open_session(one, 0);
  budget.open_session(two, 0);
  const HostBufferId kept = *budget.allocate(one, 5000 * mib);
  const HostBufferId gone = *budget.allocate(one, 1 * mib);
  ASSERT_TRUE(budget.free(one, gone));
  for (int mistake = 0; mistake < 10'000; ++mistake) {
    Outcome<std::uint64_t> answer = 0;
    switch (random.below(5)) {
      case 0: answer = budget.free(one, gone); break;
      case 1: answer = budget.free(two, kept); break;
      case 2: answer = budget.truncate(two, kept, 0); break;
      case 3: answer = budget.truncate(one, kept, 5001 * mib); break;
      default: answer = budget.free(one, HostBufferId{random.next() | 1ull << 63}); break;
    }
    ASSERT_FALSE(answer);
    ASSERT_EQ(budget.used_bytes(), 5000 * mib);
    budget.verify();
  }
  EXPECT_TRUE(budget.allocate(two, 1 * mib));
}

TEST(HostBudget, RefusesForALackOfMemoryWhatPressureDoesNotLeave) {
  HostBudget budget({.budget_bytes = 1000});
  budget.open_session(SessionId{1}, 0);
  ASSERT_TRUE(budget.allocate(SessionId{1}, 300));
  budget.set_allowed(400);
  EXPECT_EQ(budget.allowed_bytes(), 400u);
  const auto refused = budget.allocate(SessionId{1}, 200);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, FailureKind::headroom);
  EXPECT_TRUE(budget.allocate(SessionId{1}, 100));
  budget.set_allowed(UINT64_MAX);
  EXPECT_EQ(budget.allowed_bytes(), 1000u);
  EXPECT_TRUE(budget.allocate(SessionId{1}, 200));
}

TEST(HostBudgetProperty, AnyHistoryKeepsTheAccount) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::Random random(seed);
    HostBudget budget({.budget_bytes = 1000, .per_user_bytes = random.one_in(2) ? 600u : 0u});
    std::map<std::uint32_t, std::map<HostBufferId, std::uint64_t>> model;  // Session -> buffer -> bytes.
    for (int step = 0; step < 300; ++step) {
      const std::uint32_t number = static_cast<std::uint32_t>(random.between(1, 4));
      const SessionId session{number};
      if (!model.contains(number)) {
        budget.open_session(session, number % 2);
        model[number];
      }
      auto& buffers = model[number];
      const auto some =
          buffers.empty()
              ? buffers.end()
              : std::next(buffers.begin(), static_cast<std::ptrdiff_t>(random.below(buffers.size())));
      const std::uint64_t bytes = random.below(400);
      if (random.one_in(20)) {
        budget.close_session(session);
        model.erase(number);
      } else if (random.one_in(2)) {
        if (const auto made = budget.allocate(session, bytes)) buffers.emplace(*made, bytes);
      } else if (some != buffers.end() && random.one_in(2)) {
        if (budget.truncate(session, some->first, bytes)) some->second = bytes;
      } else if (some != buffers.end()) {
        ASSERT_EQ(*budget.free(session, some->first), some->second);
        buffers.erase(some);
      }
      std::uint64_t total = 0;
      for (const auto& [owner, owned] : model) {
        std::uint64_t sum = 0;
        for (const auto& [id, size] : owned) sum += size;
        ASSERT_EQ(budget.session_bytes(SessionId{owner}), sum);
        total += sum;
      }
      ASSERT_EQ(budget.used_bytes(), total);
      ASSERT_LE(total, 1000u);
      budget.verify();
    }
  }
}

}  // namespace
}  // namespace penstock
