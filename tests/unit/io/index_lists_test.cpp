// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/index_lists.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

#include "tests/support/random.hpp"

namespace penstock::test {
namespace {

enum class List : std::uint8_t { unused, red, green };
using Lists = IndexLists<List>;

std::vector<std::uint32_t> content(const Lists& lists, List list) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t at = lists.first(list); at != Lists::none; at = lists.next(at)) numbers.push_back(at);
  return numbers;
}

TEST(IndexLists, HoldsAllNumbersInTheFirstListAtFirst) {
  const Lists lists(4, 3);
  EXPECT_EQ(content(lists, List::unused), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(lists.empty(List::red));
}

// Against lists that are obviously right.
TEST(IndexLists, MovesNumbersAsAModelDoes) {
  constexpr std::uint32_t numbers = 9;
  Lists lists(numbers, 3);
  std::array<std::deque<std::uint32_t>, 3> model;
  for (std::uint32_t number = 0; number < numbers; ++number) model[0].push_back(number);
  Random random(7);
  for (int step = 0; step < 20'000; ++step) {
    const auto number = static_cast<std::uint32_t>(random.below(numbers));
    const auto target = random.below(3);
    for (auto& list : model) std::erase(list, number);
    if (random.one_in(2)) {
      lists.move_to_back(static_cast<List>(target), number);
      model[target].push_back(number);
    } else {
      lists.move_to_front(static_cast<List>(target), number);
      model[target].push_front(number);
    }
    for (std::size_t list = 0; list < 3; ++list) {
      const auto have = content(lists, static_cast<List>(list));
      ASSERT_TRUE(std::equal(have.begin(), have.end(), model[list].begin(), model[list].end())) << step;
      ASSERT_EQ(lists.empty(static_cast<List>(list)), model[list].empty());
    }
    ASSERT_EQ(lists.list_of(number), static_cast<List>(target));
  }
}

}  // namespace
}  // namespace penstock::test
