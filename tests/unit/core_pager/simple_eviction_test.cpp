// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/simple_eviction.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

constexpr TableId first{1}, second{2}, third{3};

class SimpleEvictionOrder : public testing::Test {
 protected:
  SimpleEvictionOrder() {
    for (const TableId table : {first, second, third}) {
      policy_.table_opened(table, TableKind::file);
      policy_.table_used_by(table, 1);
      policy_.became_evictable({table, 0});
      policy_.became_evictable({table, 5});
    }
  }
  std::optional<PageKey> take() {
    const std::optional<PageKey> victim = policy_.victim(std::nullopt);
    if (victim) policy_.no_longer_evictable(*victim);
    return victim;
  }
  SimpleEviction policy_;
};

TEST_F(SimpleEvictionOrder, TheLastPageOfATableGoesFirst) {
  EXPECT_EQ(take(), (PageKey{first, 5}));
  EXPECT_EQ(take(), (PageKey{first, 0}));
  EXPECT_EQ(take(), (PageKey{second, 5}));
}

TEST_F(SimpleEvictionOrder, ATableThatNobodyUsesGoesFirst) {
  policy_.table_used_by(third, 0);
  policy_.table_used_by(second, 0);
  EXPECT_EQ(take(), (PageKey{second, 5}));
  policy_.table_used_by(second, 1);
  EXPECT_EQ(take(), (PageKey{third, 5}));
}

TEST_F(SimpleEvictionOrder, ThePrioritizedTableGoesLast) {
  policy_.prioritized(second);
  policy_.prioritized(first);
  EXPECT_EQ(take()->table, third);
  take();
  EXPECT_EQ(take()->table, second);
  take();
  EXPECT_EQ(take()->table, first);
  take();
  EXPECT_EQ(take(), std::nullopt);
}

TEST_F(SimpleEvictionOrder, AmongEqualsWhatIsCheapToBringBackGoesFirst) {
  policy_.source_moved(third, SourcePlace::locked_host);
  policy_.source_moved(second, SourcePlace::page_cache);
  EXPECT_EQ(take(), (PageKey{third, 5}));
  policy_.source_moved(third, SourcePlace::disk);
  EXPECT_EQ(take(), (PageKey{second, 5}));
  EXPECT_EQ(take(), (PageKey{second, 0}));
  EXPECT_EQ(take(), (PageKey{first, 5}));
}

TEST_F(SimpleEvictionOrder, WhatOnlyAClientCanBringBackStaysTheLongerTheFurtherItsMemoryIs) {
  policy_.source_moved(first, SourcePlace::client_swap);
  policy_.source_moved(second, SourcePlace::client_memory);
  EXPECT_EQ(take()->table, third);
  take();
  EXPECT_EQ(take()->table, second);
  take();
  EXPECT_EQ(take()->table, first);
}

TEST_F(SimpleEvictionOrder, CostDoesNotOutweighUseOrPriority) {
  policy_.source_moved(third, SourcePlace::locked_host);
  policy_.source_moved(second, SourcePlace::locked_host);
  policy_.prioritized(third);
  policy_.table_used_by(first, 0);
  EXPECT_EQ(take()->table, first);
  take();
  EXPECT_EQ(take()->table, second);
  take();
  EXPECT_EQ(take()->table, third);
}

TEST_F(SimpleEvictionOrder, ARequestMayNameItsTable) {
  EXPECT_EQ(policy_.victim(second), (PageKey{second, 5}));
  EXPECT_EQ(policy_.victim(TableId{9}), std::nullopt);
}

TEST_F(SimpleEvictionOrder, APrefetchIsWorthThePagesOfLesserTablesAlone) {
  policy_.prioritized(second);
  EXPECT_TRUE(policy_.worth_evicting({second, 1}, {first, 5}));
  EXPECT_FALSE(policy_.worth_evicting({first, 1}, {second, 5}));
  EXPECT_FALSE(policy_.worth_evicting({second, 1}, {second, 5}));
  policy_.table_used_by(second, 0);
  EXPECT_TRUE(policy_.worth_evicting({first, 1}, {second, 5}));
}

TEST_F(SimpleEvictionOrder, AClosedTableHasNoVictims) {
  policy_.table_closed(first);
  EXPECT_EQ(take()->table, second);
}

TEST(EvictionSet, FindsItsLastElementLikeAnOrderedSet) {
  Random random(7);
  EvictionSet set;
  std::set<std::uint32_t> model;
  for (int step = 0; step < 20'000; ++step) {
    const auto page = static_cast<std::uint32_t>(random.below(random.one_in(2) ? 300 : 100'000));
    if (model.contains(page)) {
      model.erase(page);
      set.erase(page);
    } else {
      model.insert(page);
      set.insert(page);
    }
    ASSERT_EQ(set.size(), model.size());
    if (!model.empty()) {
      ASSERT_EQ(set.last(), *model.rbegin());
    }
    if (random.one_in(50)) {
      while (!model.empty()) {
        set.erase(*model.rbegin());
        model.erase(std::prev(model.end()));
        if (!model.empty()) {
          ASSERT_EQ(set.last(), *model.rbegin());
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::test
