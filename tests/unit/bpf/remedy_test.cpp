// SPDX-License-Identifier: Apache-2.0
#include "bpf/remedy.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr KernelFacts all_rights{.has_btf = true, .can_bpf = true, .can_perfmon = true};

std::string remedy(const KernelFacts& facts, const char* why, ProbeLevel level = ProbeLevel::cachestat) {
  const std::vector<ProbeReport> reports{{.name = "page_cache", .why = why}};
  return probe_remedy(facts, level, reports);
}

TEST(ProbeRemedy, NothingIsToBeDoneWhereThePageCacheIsTraced) {
  EXPECT_EQ(remedy({}, "", ProbeLevel::traced), "");
  EXPECT_EQ(remedy({}, "", ProbeLevel::traced_and_faults), "");
}

TEST(ProbeRemedy, NamesWhatIsMissing) {
  EXPECT_NE(remedy({.has_btf = true, .can_perfmon = true}, "program load: EPERM").find("=CAP_BPF in"),
            std::string::npos);
  EXPECT_NE(remedy({.has_btf = true, .can_bpf = true}, "").find("=CAP_PERFMON in"), std::string::npos);
  EXPECT_NE(remedy({.has_btf = true}, "").find("CAP_BPF CAP_PERFMON"), std::string::npos);
  EXPECT_NE(remedy({.can_bpf = true, .can_perfmon = true}, "").find("CONFIG_DEBUG_INFO_BTF"),
            std::string::npos);
}

TEST(ProbeRemedy, AFilterIsToldFromAMissingCapability) {
  EXPECT_NE(remedy(all_rights, "program load: EPERM; capabilities suffice").find("filter"),
            std::string::npos);
}

TEST(ProbeRemedy, WhatTheOperatorOrTheBuildTurnedOffIsSaidFirst) {
  EXPECT_NE(remedy({}, "turned off").find("probes.ebpf"), std::string::npos);
  EXPECT_NE(remedy({}, "not built: this build had no clang or no bpftool").find("clang"), std::string::npos);
}

}  // namespace
}  // namespace penstock
