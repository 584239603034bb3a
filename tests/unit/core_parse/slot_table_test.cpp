// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/slot_table.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/random.hpp"

namespace penstock {
namespace {

TEST(SlotTable, TakesTheSlotFreedLast) {
  SlotTable table(3);
  EXPECT_EQ(table.take(), SlotId{0});
  EXPECT_EQ(table.take(), SlotId{1});
  table.give_back(SlotId{0});
  table.give_back(SlotId{1});
  EXPECT_EQ(table.take(), SlotId{1});
  EXPECT_EQ(table.take(), SlotId{0});
  EXPECT_EQ(table.take(), SlotId{2});
  EXPECT_EQ(table.take(), std::nullopt);
}

TEST(SlotTable, ConservesSlots) {
  SlotTable table(17);
  test::Random random(1);
  std::vector<SlotId> held;
  for (int step = 0; step < 10'000; ++step) {
    if (random.one_in(2)) {
      if (const auto slot = table.take()) held.push_back(*slot);
    } else if (!held.empty()) {
      const std::size_t victim = random.below(held.size());
      table.give_back(held[victim]);
      held[victim] = held.back();
      held.pop_back();
    }
    ASSERT_EQ(table.taken(), held.size());
    ASSERT_EQ(table.free() + table.taken(), table.count());
    ASSERT_EQ(std::set<SlotId>(held.begin(), held.end()).size(), held.size());
  }
}

TEST(SlotTableDeathTest, StopsOnASlotGivenBackTwice) {
  SlotTable table(2);
  const SlotId slot = *table.take();
  table.give_back(slot);
  EXPECT_DEATH(table.give_back(slot), "CHECK");
  EXPECT_DEATH(table.give_back(SlotId{2}), "CHECK");
}

TEST(SlotTable, OfNothingHasNothing) { EXPECT_EQ(SlotTable(0).take(), std::nullopt); }

}  // namespace
}  // namespace penstock
