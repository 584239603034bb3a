// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/core_pager/random_world.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace penstock::test {
namespace {

struct Totals {
  std::uint64_t completed = 0, evictions = 0, refaults = 0;
};

// PENSTOCK_SEED starts elsewhere. A broken rule aborts, with the seed as the last line.
Totals run_seeds(std::uint64_t seeds, int steps, bool large) {
  const char* given = std::getenv("PENSTOCK_SEED");
  const std::uint64_t first = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  Totals totals;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    std::fprintf(stderr, "\rseed %llu%s ", static_cast<unsigned long long>(seed), large ? ", large" : "");
    RandomWorld world(seed, large);
    world.run(steps);
    world.everyone_answers();
    world.run(steps);
    world.fall_silent();
    totals.completed += world.completed();
    totals.evictions += world.counts().evictions;
    totals.refaults += world.counts().refaults;
    world.wind_down();
  }
  std::fprintf(stderr, "\n");
  return totals;
}

TEST(PagerRandomWorld, KeepsItsInvariantsAnswersEveryTicketAndLeavesNothing) {
  const Totals totals = run_seeds(250, 800, false);
  EXPECT_GT(totals.completed, 1000u);
  EXPECT_GT(totals.evictions, 100u);
  EXPECT_GT(totals.refaults, 10u);
}

TEST(PagerRandomWorld, TheSameWithTablesOfManyBatches) {
  const Totals totals = run_seeds(10, 400, true);
  EXPECT_GT(totals.completed, 200u);
  EXPECT_GT(totals.evictions, 1000u);
}

}  // namespace
}  // namespace penstock::test
