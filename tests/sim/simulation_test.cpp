// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulation.hpp"

#include <gtest/gtest.h>

#include "tests/sim/seeds.hpp"

namespace penstock::sim {
namespace {

TEST(PagerSimulation, HoldsEveryInvariantOverManySeeds) {
  const Totals totals = run_seeds({.first = 1, .count = 400, .steps = 800}, {});
  EXPECT_GT(totals.completed, 20'000u);
  EXPECT_GT(totals.evictions, 10'000u);
  EXPECT_GT(totals.refaults, 1000u);
}

TEST(PagerSimulation, HoldsThemWithTablesOfManyBatches) {
  const Totals totals = run_seeds({.first = 1, .count = 12, .steps = 400}, {.large = true});
  EXPECT_GT(totals.completed, 200u);
  EXPECT_GT(totals.evictions, 1000u);
}

// Whatever fails can be run again.
TEST(PagerSimulation, DoesTheSameForTheSameSeed) {
  const Totals once = run_seeds({.first = 77, .count = 5, .steps = 500}, {});
  const Totals again = run_seeds({.first = 77, .count = 5, .steps = 500}, {.verify_core = false});
  EXPECT_EQ(once.steps, again.steps);
  EXPECT_EQ(once.completed, again.completed);
  EXPECT_EQ(once.evictions, again.evictions);
}

}  // namespace
}  // namespace penstock::sim
