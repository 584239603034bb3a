// SPDX-License-Identifier: Apache-2.0
// Cases C01, C02 and C03 on literal trees.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "bpf/cgroup_files.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

using test::LiteralTree;

struct Answer {
  CgroupVersion version;
  CgroupMemory memory;
  std::vector<std::string> warnings;
};

Answer ask(const LiteralTree& tree) {
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  CgroupMemory memory = files.read(warnings);
  // What is said once stays said once.
  for (int again = 0; again < 3; ++again) memory = files.read(warnings);
  return {files.version(), memory, warnings.take()};
}

TEST(CaseC01, MaxIsNoLimitOnV2) {
  const LiteralTree tree(
      {{"proc/self/cgroup", "0::/service\n"}, {"sys/fs/cgroup/service/memory.max", "max\n"}});
  const Answer answer = ask(tree);
  EXPECT_EQ(answer.version, CgroupVersion::v2);
  EXPECT_EQ(answer.memory.max, std::nullopt);
  EXPECT_EQ(answer.memory.headroom, std::nullopt);
  EXPECT_TRUE(answer.warnings.empty());
}

TEST(CaseC01, TheSentinelIsNoLimitOnV1AtAnyPageSize) {
  for (const char* sentinel : {"9223372036854771712\n", "9223372036854710272\n"}) {
    const LiteralTree tree({{"proc/self/cgroup", "4:memory:/deep/path\n"},
                            {"sys/fs/cgroup/memory/memory.limit_in_bytes", sentinel},
                            {"sys/fs/cgroup/memory/deep/memory.limit_in_bytes", sentinel},
                            {"sys/fs/cgroup/memory/deep/path/memory.limit_in_bytes", sentinel}});
    const Answer answer = ask(tree);
    EXPECT_EQ(answer.version, CgroupVersion::v1);
    EXPECT_EQ(answer.memory.max, std::nullopt);
    EXPECT_TRUE(answer.warnings.empty());
  }
}

TEST(CaseC01, HybridTakesTheLimitFromTheV1Path) {
  const LiteralTree tree(
      {{"proc/self/cgroup", "11:memory:/memory.slice/service.scope\n0::/system.slice/service.scope\n"},
       {"proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"},
       {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
       {"sys/fs/cgroup/memory/memory.slice/service.scope/memory.limit_in_bytes", "536870912\n"},
       {"sys/fs/cgroup/memory/memory.slice/service.scope/memory.usage_in_bytes", "1048576\n"},
       {"sys/fs/cgroup/memory/memory.slice/service.scope/memory.stat", "total_inactive_file 0\n"},
       {"sys/fs/cgroup/unified/system.slice/service.scope/cgroup.procs", ""}});
  const Answer answer = ask(tree);
  EXPECT_EQ(answer.version, CgroupVersion::v1);
  EXPECT_EQ(answer.memory.max, 536870912u);
  EXPECT_EQ(answer.memory.headroom, 536870912u - 1048576u);
  EXPECT_TRUE(answer.warnings.empty());
}

TEST(CaseC01, ANumberWithoutNewlineIsALimit) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a\n"},
                          {"sys/fs/cgroup/a/memory.max", "536870912"},
                          {"sys/fs/cgroup/a/memory.current", "0"},
                          {"sys/fs/cgroup/a/memory.stat", ""}});
  EXPECT_EQ(ask(tree).memory.max, 536870912u);
}

TEST(CaseC01, AnEmptyFileIsNoLimitAndOneWarning) {
  const Answer answer =
      ask(LiteralTree({{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/memory.max", ""}}));
  EXPECT_EQ(answer.memory.max, std::nullopt);
  ASSERT_EQ(answer.warnings.size(), 1u);
  EXPECT_NE(answer.warnings[0].find("/sys/fs/cgroup/a/memory.max"), std::string::npos) << answer.warnings[0];
}

TEST(CaseC01, AnUnreadableFileIsNoLimitAndOneWarning) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/memory.current", "0\n"}});
  tree.make_folder("sys/fs/cgroup/a/memory.max");
  const Answer answer = ask(tree);
  EXPECT_EQ(answer.memory.max, std::nullopt);
  ASSERT_EQ(answer.warnings.size(), 1u);
  EXPECT_NE(answer.warnings[0].find("Is a directory"), std::string::npos) << answer.warnings[0];
}

TEST(CaseC01, AFileWithoutPermissionIsNoLimitAndOneWarning) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/memory.max", "1\n"}});
  std::filesystem::permissions(tree.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(tree.path() + "/sys/fs/cgroup/a/memory.max", std::filesystem::perms::none);
  // Root reads everything, so be somebody else meanwhile.
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::seteuid(65534) == 0);
  const Answer answer = ask(tree);
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  EXPECT_EQ(answer.memory.max, std::nullopt);
  ASSERT_EQ(answer.warnings.size(), 1u);
  EXPECT_NE(answer.warnings[0].find("Permission denied"), std::string::npos) << answer.warnings[0];
}

LiteralTree pod(std::string_view leaf_max, std::string_view pod_max, std::string_view leaf_high = "max") {
  return LiteralTree({{"proc/self/cgroup", "0::/kubepods/burstable/podX/ctr\n"},
                      {"sys/fs/cgroup/kubepods/memory.max", "max\n"},
                      {"sys/fs/cgroup/kubepods/burstable/memory.max", "max\n"},
                      {"sys/fs/cgroup/kubepods/burstable/podX/memory.max", pod_max},
                      {"sys/fs/cgroup/kubepods/burstable/podX/memory.current", "4096\n"},
                      {"sys/fs/cgroup/kubepods/burstable/podX/memory.stat", "inactive_file 0\n"},
                      {"sys/fs/cgroup/kubepods/burstable/podX/ctr/memory.max", leaf_max},
                      {"sys/fs/cgroup/kubepods/burstable/podX/ctr/memory.high", leaf_high},
                      {"sys/fs/cgroup/kubepods/burstable/podX/ctr/memory.current", "4096\n"},
                      {"sys/fs/cgroup/kubepods/burstable/podX/ctr/memory.stat", "inactive_file 0\n"}});
}

TEST(CaseC02, AParentsLimitBindsAnUnlimitedLeaf) {
  const Answer answer = ask(pod("max\n", "268435456\n"));
  EXPECT_EQ(answer.memory.max, 268435456u);
  EXPECT_EQ(answer.memory.headroom, 268435456u - 4096);
  EXPECT_TRUE(answer.warnings.empty());
}

TEST(CaseC02, TheTightestOfSeveralLimitsBinds) {
  EXPECT_EQ(ask(pod("1073741824\n", "536870912\n")).memory.max, 536870912u);
  EXPECT_EQ(ask(pod("536870912\n", "1073741824\n")).memory.max, 536870912u);
}

TEST(CaseC02, APrivateNamespaceHasItsLimitAtTheRoot) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/\n"},
                          {"sys/fs/cgroup/memory.max", "134217728\n"},
                          {"sys/fs/cgroup/memory.current", "0\n"},
                          {"sys/fs/cgroup/memory.stat", ""}});
  const Answer answer = ask(tree);
  EXPECT_EQ(answer.memory.max, 134217728u);
  EXPECT_TRUE(answer.warnings.empty());
}

TEST(CaseC02, APathThatIsNotThereFallsBackToTheMountWithOneWarning) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/machine/x.scope\n"},
                          {"sys/fs/cgroup/memory.max", "134217728\n"},
                          {"sys/fs/cgroup/memory.current", "0\n"},
                          {"sys/fs/cgroup/memory.stat", ""},
                          {"sys/fs/cgroup/machine/memory.max", "1\n"}});
  const Answer answer = ask(tree);
  EXPECT_EQ(answer.memory.max, 134217728u);
  ASSERT_EQ(answer.warnings.size(), 1u);
  EXPECT_NE(answer.warnings[0].find("/machine/x.scope"), std::string::npos);
}

TEST(CaseC02, APathThatLeavesTheMountIsNotFollowed) {
  for (const char* path : {"/../../x", "/a/../../x", "/.."}) {
    const LiteralTree tree({{"proc/self/cgroup", "0::" + std::string(path) + "\n"},
                            {"sys/fs/cgroup/memory.max", "134217728\n"},
                            {"sys/fs/cgroup/memory.current", "0\n"},
                            {"sys/fs/cgroup/memory.stat", ""},
                            {"sys/fs/cgroup/a/cgroup.procs", ""},
                            {"sys/fs/memory.max", "1\n"},
                            {"sys/x/memory.max", "1\n"},
                            {"sys/fs/x/memory.max", "1\n"}});
    const Answer answer = ask(tree);
    EXPECT_EQ(answer.memory.max, 134217728u) << path;
    EXPECT_EQ(answer.warnings.size(), 1u) << path;
  }
}

TEST(CaseC02, HighIsReportedApartAndIsTheEarlierThreshold) {
  const Answer answer = ask(pod("268435456\n", "max\n", "163577856\n"));  // 100 MiB below max.
  EXPECT_EQ(answer.memory.max, 268435456u);
  EXPECT_EQ(answer.memory.high, 163577856u);
  EXPECT_EQ(answer.memory.headroom, 163577856u - 4096);
}

LiteralTree full_of_cache(std::string_view active_file, std::string_view shmem) {
  return LiteralTree(
      {{"proc/self/cgroup", "0::/a\n"},
       {"sys/fs/cgroup/a/memory.max", "1073741824\n"},
       {"sys/fs/cgroup/a/memory.current", "1068498944\n"},
       {"sys/fs/cgroup/a/memory.stat", "anon 10485760\nfile 1055916032\nshmem " + std::string(shmem) +
                                           "\nfile_dirty 0\ninactive_file 796917760\nactive_file " +
                                           std::string(active_file) + "\n"}});
}

TEST(CaseC03, FileCacheIsFreeWhetherActiveOrNot) {
  EXPECT_EQ(ask(full_of_cache("251658240", "0")).memory.headroom, 1053818880u);
}

TEST(CaseC03, SharedMemoryIsNotFree) {
  EXPECT_EQ(ask(full_of_cache("0", "251658240")).memory.headroom, 802160640u);
}

TEST(CaseC03, V1CountsTheDescendantsCacheToo) {
  const LiteralTree tree({{"proc/self/cgroup", "4:memory:/a\n"},
                          {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n"},
                          {"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1068498944\n"},
                          {"sys/fs/cgroup/memory/a/memory.stat",
                           "cache 0\ninactive_file 0\nactive_file 0\ntotal_cache 1055916032\n"
                           "total_inactive_file 796917760\ntotal_active_file 251658240\n"}});
  EXPECT_EQ(ask(tree).memory.headroom, 1053818880u);
}

}  // namespace
}  // namespace penstock
