// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/seeds.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace penstock::sim {
namespace {

char last_words[80];  // What the handler writes: it may neither format nor allocate.

void name_seed(int) {
  std::signal(SIGABRT, SIG_DFL);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, last_words, std::strlen(last_words));
  // Back to abort(), which raises the signal again.
}

}  // namespace

Totals run_seeds(const SeedRange& seeds, SimulationOptions options) {
  const auto before = std::signal(SIGABRT, name_seed);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    std::snprintf(last_words, sizeof(last_words), "seed %llu, steps %d%s\n",
                  static_cast<unsigned long long>(seed), seeds.steps, options.large ? ", large" : "");
    Simulation simulation(seed, options);
    simulation.run(seeds.steps);
    simulation.everyone_answers();
    simulation.run(seeds.steps);
    simulation.fall_silent();
    totals.completed += simulation.completed();
    totals.evictions += simulation.counts().evictions;
    totals.refaults += simulation.counts().refaults;
    simulation.wind_down();
    totals.steps += simulation.steps();
  }
  std::signal(SIGABRT, before);
  return totals;
}

}  // namespace penstock::sim
