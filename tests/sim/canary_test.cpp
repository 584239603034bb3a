// SPDX-License-Identifier: Apache-2.0
// Each planted error of the core must be caught by the simulation's own rules: the core doesn't verify itself
// here.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ostream>
#include <string>

#include "dataplane/core/planted.hpp"
#include "tests/sim/seeds.hpp"

namespace penstock {

// gtest's name for a parameter.
static void PrintTo(const PlantedKind& planted, std::ostream* out) { *out << planted.name; }

namespace sim {
namespace {

constexpr std::uint64_t seeds_max = 200;
constexpr int steps = 400;
constexpr unsigned child_seconds = 100;

struct Child {
  int status = 0;
  std::string words;  // What it said on stderr.
};

// A child of its own: what is caught ends the process.
Child run_planted(Planted kind, const SeedRange& seeds) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(child_seconds);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    planted_kind = kind;
    run_seeds(seeds, {.verify_core = false});
    _exit(0);
  }
  close(ends[1]);
  Child child;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    child.words.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  EXPECT_EQ(waitpid(pid, &child.status, 0), pid);
  return child;
}

class PagerCanary : public testing::TestWithParam<PlantedKind> {};

TEST_P(PagerCanary, IsCaughtWithinTwoHundredSeeds) {
  const Child child = run_planted(GetParam().kind, {.first = 1, .count = seeds_max, .steps = steps});
  ASSERT_TRUE(WIFSIGNALED(child.status)) << GetParam().name << " was not caught; status " << child.status;
  EXPECT_EQ(WTERMSIG(child.status), SIGABRT) << child.words;
  EXPECT_NE(child.words.find("seed "), std::string::npos) << child.words;
  std::printf("%s", child.words.c_str());
}

INSTANTIATE_TEST_SUITE_P(Planted, PagerCanary, testing::ValuesIn(planted_kinds),
                         [](const auto& given) { return std::string(given.param.name); });

TEST(PagerCanaryBuild, PassesWithNothingPlanted) {
  const Child child = run_planted(Planted::none, {.first = 1, .count = seeds_max, .steps = steps});
  EXPECT_EQ(child.status, 0) << child.words;
}

}  // namespace
}  // namespace sim
}  // namespace penstock
