// SPDX-License-Identifier: Apache-2.0
// The watch's thread against scripted probes; the kernel's triggers are in the integration tests.
#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bpf/pressure_watch.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/literal_tree.hpp"
#include "tests/support/scripted_probes.hpp"

namespace penstock {
namespace {

std::string total_of(int microseconds) {
  return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(microseconds) + "\n";
}

TEST(PressureWatch, EachHintIsToldOnceAndInOrder) {
  test::ScriptedProbes probes;
  std::vector<std::uint32_t> told;  // The watch's thread alone, until the watch is gone.
  std::atomic<std::size_t> count = 0;
  auto watch = PressureWatch::start(probes, {},
                                    {.hint =
                                         [&](const Hint& hint) {
                                           told.push_back(hint.process);
                                           ++count;
                                         },
                                     .pressure = [](std::size_t) {}});
  ASSERT_TRUE(watch);
  for (std::uint32_t i = 0; i < 100; ++i) {
    Hint hint;
    hint.process = i;
    probes.send(hint);
  }
  EXPECT_TRUE(eventually([&] { return count == 100; }));
  watch->reset();
  ASSERT_EQ(told.size(), 100u);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(told[i], i);
}

TEST(PressureWatch, NothingIsToldAfterTheEnd) {
  test::ScriptedProbes probes;
  std::atomic<int> count = 0;
  auto watch = PressureWatch::start(probes, {},
                                    {.hint = [&](const Hint&) { ++count; }, .pressure = [](std::size_t) {}});
  ASSERT_TRUE(watch);
  watch->reset();
  probes.send({});
  EXPECT_EQ(count, 0);
}

TEST(PressureWatch, AnEdgeWithoutATriggerIsLookedAtAtTheEndOfEachWindow) {
  const test::LiteralTree tree({{"calm", total_of(5)}, {"busy", total_of(1'000'000)}});
  test::ScriptedProbes probes;
  std::vector<PressureEdge> edges;
  for (const char* name : {"calm", "busy"}) {
    Result<PressureEdge> edge = PressureEdge::polled(tree.root().get(), name,
                                                     {.kind = PressureKind::some,
                                                      .stall = std::chrono::milliseconds(1),
                                                      .window = std::chrono::milliseconds(5)});
    ASSERT_TRUE(edge);
    edges.push_back(*std::move(edge));
  }
  std::atomic<int> calm = 0, busy = 0;
  const auto watch = PressureWatch::start(
      probes, std::move(edges),
      {.hint = [](const Hint&) {}, .pressure = [&](std::size_t edge) { ++(edge == 0 ? calm : busy); }});
  ASSERT_TRUE(watch);
  for (int round = 1; round <= 3; ++round) {
    tree.write("busy", total_of(1'000'000 * (round + 1)));
    EXPECT_TRUE(eventually([&] { return busy == round; }));
  }
  EXPECT_EQ(calm, 0);
}

TEST(PressureWatch, TellsWhatPressureIsWithoutABoundThatIsPassed) {
  const test::LiteralTree tree({{"calm", total_of(5)}});
  test::ScriptedProbes probes;
  std::vector<PressureEdge> edges;
  Result<PressureEdge> edge =
      PressureEdge::polled(tree.root().get(), "calm", {.window = std::chrono::hours(1)});
  ASSERT_TRUE(edge);
  edges.push_back(*std::move(edge));
  std::atomic<std::int64_t> seen = 0;
  std::atomic<int> passed = 0;
  const auto watch = PressureWatch::start(
      probes, std::move(edges),
      {.hint = [](const Hint&) {},
       .pressure = [&](std::size_t) { ++passed; },
       .seen = [&](std::size_t, const Pressure& pressure) { seen = pressure.some->total.count(); }});
  ASSERT_TRUE(watch);
  EXPECT_TRUE(eventually([&] { return seen == 5'000; }));
  tree.write("calm", total_of(6'000'000));
  EXPECT_TRUE(eventually([&] { return seen == 6'000'000'000; }));
  EXPECT_EQ(passed, 0);
}

}  // namespace
}  // namespace penstock
