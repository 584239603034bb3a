// SPDX-License-Identifier: Apache-2.0
// pager_sim --seed N --steps M --seeds K [--large]: the simulation for as long as one likes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/sim/seeds.hpp"

namespace {

int usage() {
  std::fprintf(stderr, "usage: pager_sim [--seed N] [--steps M] [--seeds K] [--large]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  penstock::sim::SeedRange seeds{.first = 1, .count = 1000, .steps = 800};
  penstock::sim::SimulationOptions options;
  for (int place = 1; place < argc; ++place) {
    const std::string_view name = argv[place];
    if (name == "--large") {
      options.large = true;
      continue;
    }
    if (place + 1 == argc) return usage();
    char* end = nullptr;
    const unsigned long long value = std::strtoull(argv[++place], &end, 10);
    if (*end != '\0' || end == argv[place]) return usage();
    if (name == "--seed") {
      seeds.first = value;
    } else if (name == "--seeds") {
      seeds.count = value;
    } else if (name == "--steps" && value <= 1'000'000'000) {
      seeds.steps = static_cast<int>(value);
    } else {
      return usage();
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const penstock::sim::Totals totals = penstock::sim::run_seeds(seeds, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("seeds %llu..%llu: %llu steps, %llu completions, %llu evictions, %llu refaults, %.1f s\n",
              static_cast<unsigned long long>(seeds.first),
              static_cast<unsigned long long>(seeds.first + seeds.count - 1),
              static_cast<unsigned long long>(totals.steps),
              static_cast<unsigned long long>(totals.completed),
              static_cast<unsigned long long>(totals.evictions),
              static_cast<unsigned long long>(totals.refaults), seconds.count());
  return 0;
}
