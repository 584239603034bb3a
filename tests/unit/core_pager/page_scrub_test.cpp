// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/page_scrub.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t page_bytes = 1 << 20;
constexpr ScrubRates one_each{.soon = page_bytes * 10, .rolling = page_bytes};  // Pages a second: 10 and 1.

PageKey page(std::uint32_t table, std::uint32_t index) { return {.table = TableId{table}, .index = index}; }

// Lets a scrub run and answers with sums that a test can change.
class Rig {
 public:
  explicit Rig(const ScrubRates& rates = one_each) : scrub(page_bytes, rates) {}

  // The keys of the pages summed up until `end`.
  std::vector<PageKey> run(std::chrono::nanoseconds end) {
    std::vector<PageKey> order;
    while (scrub.due(now) <= end) {
      now = scrub.due(now);
      const auto given = scrub.next(now);
      if (!given) break;
      order.push_back(given->page);
      verdicts.push_back(scrub.summed(*given, sum_of(given->page)));
    }
    now = end;
    return order;
  }
  std::uint64_t sum_of(PageKey key) const { return key == broken ? 666 : raw(key.table) * 1000 + key.index; }

  PageScrub scrub;
  std::chrono::nanoseconds now{0};
  PageKey broken = page(999, 0);
  std::vector<ScrubVerdict> verdicts;
};

TEST(PageScrub, SumsUpNewPagesSoonAndRollsThroughAllSlowly) {
  Rig rig;
  rig.scrub.resident(page(1, 1), Generation{1});
  rig.scrub.resident(page(1, 0), Generation{1});
  rig.scrub.resident(page(2, 0), Generation{1});
  EXPECT_EQ(rig.scrub.stats().unsummed, 3u);
  EXPECT_EQ(rig.run(250ms), (std::vector{page(1, 0), page(1, 1), page(2, 0)}));
  EXPECT_EQ(rig.verdicts, (std::vector(3, ScrubVerdict::recorded)));
  EXPECT_EQ(rig.scrub.sum_of(page(2, 0), Generation{1}), 2000u);
  rig.verdicts.clear();
  EXPECT_EQ(rig.run(4300ms), (std::vector{page(1, 0), page(1, 1), page(2, 0), page(1, 0)}));
  EXPECT_EQ(rig.verdicts, (std::vector(4, ScrubVerdict::intact)));
  EXPECT_EQ(rig.scrub.stats().rounds_total, 1u);
}

TEST(PageScrub, ReportsACorruptPageOnceAndForgetsIt) {
  Rig rig;
  for (std::uint32_t index = 0; index < 3; ++index) rig.scrub.resident(page(7, index), Generation{5});
  rig.run(1s);
  rig.broken = page(7, 1);
  rig.verdicts.clear();
  rig.run(10s);
  EXPECT_EQ(std::ranges::count(rig.verdicts, ScrubVerdict::corrupt), 1);
  EXPECT_EQ(rig.scrub.stats().corrupt_total, 1u);
  EXPECT_EQ(rig.scrub.stats().pages, 2u);
  EXPECT_EQ(rig.scrub.finding().page, page(7, 1));
  EXPECT_EQ(rig.scrub.finding().generation, Generation{5});
  EXPECT_EQ(rig.scrub.finding().expected, 7001u);
  EXPECT_EQ(rig.scrub.finding().found, 666u);
}

TEST(PageScrub, TrustsASumThatIsKnownBeforehand) {
  Rig rig;
  rig.scrub.resident(page(1, 0), Generation{1}, 4711);
  rig.run(0s);
  EXPECT_EQ(rig.verdicts, std::vector{ScrubVerdict::corrupt});
  EXPECT_EQ(rig.scrub.finding().expected, 4711u);
}

TEST(PageScrub, AnswersAboutAPageThatWentMeanwhileChangeNothing) {
  Rig rig;
  rig.scrub.resident(page(1, 0), Generation{1});
  const auto order = rig.scrub.next(0s);
  ASSERT_TRUE(order);
  rig.scrub.gone(page(1, 0));
  rig.scrub.resident(page(1, 0), Generation{2});
  EXPECT_EQ(rig.scrub.summed(*order, 1), ScrubVerdict::stale);
  EXPECT_EQ(rig.scrub.sum_of(page(1, 0), Generation{2}), std::nullopt);
  EXPECT_EQ(rig.scrub.sum_of(page(1, 0), Generation{1}), std::nullopt);
}

TEST(PageScrub, GivesOneOrderAtATime) {
  Rig rig;
  rig.scrub.resident(page(1, 0), Generation{1});
  rig.scrub.resident(page(1, 1), Generation{1});
  const auto order = rig.scrub.next(0s);
  ASSERT_TRUE(order);
  EXPECT_EQ(rig.scrub.next(100s), std::nullopt);
  EXPECT_EQ(rig.scrub.due(100s), PageScrub::never);
  rig.scrub.summed(*order, 1);
  EXPECT_TRUE(rig.scrub.next(100s));
}

TEST(PageScrub, DoesNotMakeUpForTimeThatPassedUnused) {
  Rig rig;
  rig.scrub.resident(page(1, 0), Generation{1}, 1000);
  rig.scrub.resident(page(1, 1), Generation{1}, 1001);
  rig.run(0s);
  rig.now = 100s;
  EXPECT_EQ(rig.run(100s).size(), 1u);
  EXPECT_EQ(rig.scrub.due(rig.now), 101s);
}

TEST(PageScrub, ServesARequestBeforeItRollsOn) {
  Rig rig;
  for (std::uint32_t table = 1; table < 4; ++table) {
    for (std::uint32_t index = 0; index < 2; ++index) rig.scrub.resident(page(table, index), Generation{1});
  }
  rig.run(1s);
  EXPECT_EQ(rig.scrub.request(TableId{2}), 2u);
  EXPECT_EQ(rig.scrub.request(TableId{9}), 0u);
  EXPECT_EQ(rig.run(1200ms), (std::vector{page(2, 0), page(2, 1)}));
  EXPECT_EQ(rig.scrub.stats().requested, 0u);
  EXPECT_EQ(rig.scrub.request(std::nullopt), 6u);
  EXPECT_EQ(rig.run(1800ms).size(), 6u);
}

TEST(PageScrub, ARequestIsAnsweredByASumThatWasBegunAfterIt) {
  Rig rig;
  rig.scrub.resident(page(1, 0), Generation{1}, 1000);
  const auto before = rig.scrub.next(0s);
  ASSERT_TRUE(before);
  // The page goes bad behind what was summed up already.
  rig.broken = page(1, 0);
  EXPECT_EQ(rig.scrub.request(TableId{1}), 1u);
  EXPECT_EQ(rig.scrub.summed(*before, 1000), ScrubVerdict::intact);
  EXPECT_EQ(rig.scrub.stats().requested, 1u);
  const auto after = rig.scrub.next(1s);
  ASSERT_TRUE(after);
  EXPECT_EQ(rig.scrub.stats().requested, 1u);
  EXPECT_EQ(rig.scrub.summed(*after, 666), ScrubVerdict::corrupt);
  EXPECT_EQ(rig.scrub.stats().requested, 0u);
}

TEST(PageScrub, WithoutARollingRateLooksOnRequestOnly) {
  Rig rig({.soon = page_bytes * 10, .rolling = 0});
  rig.scrub.resident(page(1, 0), Generation{1});
  EXPECT_EQ(rig.run(100s).size(), 1u);
  EXPECT_EQ(rig.scrub.due(rig.now), PageScrub::never);
  rig.scrub.request(TableId{1});
  EXPECT_EQ(rig.run(200s).size(), 1u);
}

TEST(PageScrub, WithoutAFastRateRollsThroughNewPages) {
  Rig rig({.soon = 0, .rolling = page_bytes});
  rig.scrub.resident(page(1, 0), Generation{1});
  rig.scrub.resident(page(1, 1), Generation{1});
  EXPECT_EQ(rig.run(1s).size(), 2u);
}

TEST(PageScrub, AFailureKeepsNoOtherPageFromItsTurn) {
  Rig rig;
  rig.scrub.resident(page(1, 0), Generation{1});
  rig.scrub.resident(page(1, 1), Generation{1});
  const auto first = rig.scrub.next(0s);
  ASSERT_TRUE(first);
  rig.scrub.failed(*first);
  const auto second = rig.scrub.next(1s);
  ASSERT_TRUE(second);
  EXPECT_NE(first->page, second->page);
  rig.scrub.summed(*second, 1);
  EXPECT_EQ(rig.scrub.next(2s)->page, first->page);
}

TEST(PageScrub, HasNothingToDoWithoutPages) {
  Rig rig;
  EXPECT_EQ(rig.scrub.next(5s), std::nullopt);
  EXPECT_EQ(rig.scrub.due(5s), PageScrub::never);
  rig.scrub.gone(page(1, 0));
}

}  // namespace
}  // namespace penstock::test
