// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "bpf/probe_plan.hpp"

namespace penstock {
namespace {

// A kernel of which only these are known.
struct FakeKernel {
  std::map<std::string, std::string> tracepoints;  // To the type of the first argument.
  std::set<std::string> functions;

  KernelSymbols symbols() const {
    return {.first_argument = [this](const std::string& name) -> std::optional<std::string> {
              const auto found = tracepoints.find(name);
              return found == tracepoints.end() ? std::nullopt : std::optional(found->second);
            },
            .has_function = [this](const std::string& name) { return functions.contains(name); }};
  }
};

const ProbePlan& plan(Probe probe) { return probe_plans()[static_cast<std::size_t>(probe)]; }

TEST(ProbePlan, EachProbeStandsAtItsNumberAndHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < probe_plans().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(probe_plans()[i].probe), i);
    EXPECT_FALSE(probe_plans()[i].alternatives.empty());
    names.insert(probe_plans()[i].name);
  }
  EXPECT_EQ(names.size(), probes);
}

TEST(CaseC05, AFunctionOfThePageCacheThatIsGoneIsNotNeeded) {
  const FakeKernel kernel{
      {{"mm_filemap_add_to_page_cache", "folio *"}, {"mm_filemap_delete_from_page_cache", "folio *"}}, {}};
  EXPECT_EQ(missing_for(plan(Probe::page_cache).alternatives.front(), kernel.symbols()), "");
}

TEST(CaseC05, AWrapperThatStillAttachesIsNoPageCacheProbe) {
  const FakeKernel kernel{{}, {"add_to_page_cache_lru", "account_page_dirtied"}};
  EXPECT_EQ(missing_for(plan(Probe::page_cache).alternatives.front(), kernel.symbols()),
            "the kernel has no tracepoint mm_filemap_add_to_page_cache");
}

TEST(CaseC05, ATracepointThatGivesPagesIsRefusedAsItWouldCountFoliosWrong) {
  const FakeKernel kernel{
      {{"mm_filemap_add_to_page_cache", "page *"}, {"mm_filemap_delete_from_page_cache", "page *"}}, {}};
  EXPECT_EQ(missing_for(plan(Probe::page_cache).alternatives.front(), kernel.symbols()),
            "the kernel's tracepoint mm_filemap_add_to_page_cache gives `page *`, not `folio *`");
}

TEST(ProbePlan, ATracepointWithoutItsTwinIsNotEnough) {
  const FakeKernel kernel{{{"mm_filemap_add_to_page_cache", "folio *"}}, {}};
  EXPECT_NE(missing_for(plan(Probe::page_cache).alternatives.front(), kernel.symbols()), "");
}

TEST(ProbePlan, AKernelBefore612HasItsFaultsFromAFunction) {
  const FakeKernel kernel{{}, {"filemap_fault"}};
  const auto alternatives = plan(Probe::major_faults).alternatives;
  ASSERT_EQ(alternatives.size(), 2u);
  EXPECT_EQ(missing_for(alternatives[0], kernel.symbols()), "the kernel has no tracepoint mm_filemap_fault");
  EXPECT_EQ(missing_for(alternatives[1], kernel.symbols()), "");
  EXPECT_EQ(missing_for(alternatives[1], FakeKernel{}.symbols()), "the kernel has no function filemap_fault");
}

TEST(ProbePlan, TheVictimOfAKillIsATaskOrANumberAsTheKernelHasIt) {
  const auto alternatives = plan(Probe::oom_kill).alternatives;
  const FakeKernel task{{{"mark_victim", "task_struct *"}}, {}}, number{{{"mark_victim", "int"}}, {}};
  EXPECT_EQ(missing_for(alternatives[0], task.symbols()), "");
  EXPECT_NE(missing_for(alternatives[1], task.symbols()), "");
  EXPECT_NE(missing_for(alternatives[0], number.symbols()), "");
  EXPECT_EQ(missing_for(alternatives[1], number.symbols()), "");
}

}  // namespace
}  // namespace penstock
