// SPDX-License-Identifier: Apache-2.0
// Runs of the simulation over many seeds. When one stops the process, the seed is the last line on stderr.
#pragma once

#include <cstdint>

#include "tests/sim/simulation.hpp"

namespace penstock::sim {

struct SeedRange {
  std::uint64_t first = 1;
  std::uint64_t count = 1;
  int steps = 800;  // Before everyone answers, and again before all fall silent.
};

struct Totals {
  std::uint64_t steps = 0;  // Events that the core was told.
  std::uint64_t completed = 0, evictions = 0, refaults = 0;
};

Totals run_seeds(const SeedRange& seeds, SimulationOptions options);

}  // namespace penstock::sim
