// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <gtest/gtest.h>

#include "bpf/kernel_facts.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

TEST(KernelFacts, CapabilitiesAreReadFromTheEffectiveSet) {
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\nCapPrm:\tff\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n"),
            0x1fffeffffffu);
  EXPECT_EQ(parse_effective_capabilities("CapEffect:\t1\n"), 0u);
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\nCapEff:\tnone\n"), 0u);
  EXPECT_EQ(parse_effective_capabilities(""), 0u);
}

TEST(KernelFacts, TheLockdownIsTheOneInBrackets) {
  EXPECT_EQ(parse_lockdown("[none] integrity confidentiality\n"), Lockdown::none);
  EXPECT_EQ(parse_lockdown("none [integrity] confidentiality\n"), Lockdown::integrity);
  EXPECT_EQ(parse_lockdown("none integrity [confidentiality]\n"), Lockdown::confidentiality);
  EXPECT_EQ(parse_lockdown(""), Lockdown::none);
}

TEST(KernelFacts, AreReadBelowARoot) {
  const test::LiteralTree tree({{"proc/self/status", "Name:\tx\nCapEff:\t0000008000000008\n"},
                                {"sys/kernel/btf/vmlinux", "types"},
                                {"sys/kernel/security/lockdown", "none [integrity] confidentiality\n"}});
  const KernelFacts facts = read_kernel_facts(tree.root().get());
  EXPECT_TRUE(facts.has_btf);
  EXPECT_TRUE(facts.can_bpf);
  EXPECT_FALSE(facts.can_perfmon);
  EXPECT_TRUE(facts.owns_files);
  EXPECT_EQ(facts.lockdown, Lockdown::integrity);
}

TEST(KernelFacts, AnEmptyRootHasNothingAndRefusesNothing) {
  const test::LiteralTree tree;
  const KernelFacts facts = read_kernel_facts(tree.root().get());
  EXPECT_FALSE(facts.has_btf);
  EXPECT_FALSE(facts.can_bpf);
  EXPECT_EQ(facts.lockdown, Lockdown::none);
}

TEST(CaseC06, ARefusalNamesTheStepTheErrorAndTheMissingCapability) {
  EXPECT_EQ(explain_refusal({.can_perfmon = true}, "map create", EPERM),
            "map create: EPERM; CAP_BPF is missing");
  EXPECT_EQ(explain_refusal({.can_bpf = true}, "program load", EPERM),
            "program load: EPERM; CAP_PERFMON is missing");
  EXPECT_EQ(explain_refusal({}, "program load", EACCES),
            "program load: EACCES; CAP_BPF and CAP_PERFMON are missing");
}

TEST(CaseC06, AnErrorThatCapabilitiesDontCureIsNotBlamedOnThem) {
  EXPECT_EQ(explain_refusal({}, "map create", EAGAIN), "map create: EAGAIN");
  EXPECT_NE(
      explain_refusal({.can_bpf = true, .can_perfmon = true}, "attach", EPERM).find("capabilities suffice"),
      std::string::npos);
  EXPECT_EQ(explain_refusal({.can_bpf = true, .can_perfmon = true, .lockdown = Lockdown::confidentiality},
                            "attach", EPERM),
            "attach: EPERM; the kernel is locked down (confidentiality)");
}

}  // namespace
}  // namespace penstock
