// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/core_pager/random_world.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace penstock::test {
namespace {

TEST(PagerRandomWorld, KeepsItsInvariantsAnswersEveryTicketAndLeavesNothing) {
  const char* only = std::getenv("PENSTOCK_SEED");
  const std::uint64_t first = only == nullptr ? 1 : std::strtoull(only, nullptr, 10);
  const std::uint64_t seeds = only == nullptr ? 6000 : 1;
  std::uint64_t completed = 0, evictions = 0, refaults = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::fprintf(stderr, "\rseed %llu", static_cast<unsigned long long>(seed));
    RandomWorld world(seed);
    world.run(1500);
    world.fall_silent();
    completed += world.completed();
    evictions += world.counts().evictions;
    refaults += world.counts().refaults;
    world.wind_down();
  }
  std::fprintf(stderr, "\n");
  std::printf("%llu tickets, %llu evictions, %llu refaults\n", static_cast<unsigned long long>(completed),
              static_cast<unsigned long long>(evictions), static_cast<unsigned long long>(refaults));
  if (only != nullptr) return;
  EXPECT_GT(completed, 1000u);
  EXPECT_GT(evictions, 1000u);
  EXPECT_GT(refaults, 100u);
}

}  // namespace
}  // namespace penstock::test
