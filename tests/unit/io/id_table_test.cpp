// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/id_table.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace penstock::test {
namespace {

enum class Id : std::uint32_t {};

TEST(IdTable, FindsWhatWasAddedUntilItIsRemoved) {
  IdTable<Id, std::string> table(4);
  const auto first = table.add("first");
  const auto second = table.add("second");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(table.at(*first), "first");
  EXPECT_EQ(table.at(*second), "second");
  table.remove(*first);
  EXPECT_EQ(table.find(*first), nullptr);
  EXPECT_EQ(table.at(*second), "second");
  EXPECT_EQ(table.size(), 1u);
}

TEST(IdTable, RefusesMoreThanItsPlaces) {
  IdTable<Id, int> table(2);
  ASSERT_TRUE(table.add(1));
  const auto second = table.add(2);
  EXPECT_FALSE(table.add(3));
  table.remove(*second);
  EXPECT_TRUE(table.add(3));
}

TEST(IdTable, DoesNotUseAnIdAgain) {
  IdTable<Id, int> table(1);
  std::set<Id> seen;
  for (int round = 0; round < 1000; ++round) {
    const auto id = table.add(round);
    ASSERT_TRUE(id);
    EXPECT_TRUE(seen.insert(*id).second);
    table.remove(*id);
  }
}

TEST(IdTable, FindsNothingUnderAForeignId) {
  IdTable<Id, int> table(2);
  EXPECT_EQ(table.find(Id{0}), nullptr);
  EXPECT_EQ(table.find(Id{4095}), nullptr);
  EXPECT_EQ(table.find(Id{UINT32_MAX}), nullptr);
}

TEST(IdTableDeathTest, StopsAtAnIdThatIsGone) {
  IdTable<Id, int> table(2);
  const auto id = table.add(1);
  table.remove(*id);
  EXPECT_DEATH(table.remove(*id), "CHECK");
}

}  // namespace
}  // namespace penstock::test
