// SPDX-License-Identifier: Apache-2.0
#include "bpf/cgroup_text.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(LimitText, MaxAndBothSentinelsAreNoLimit) {
  for (const char* text :
       {"max", "max\n", "9223372036854771712\n", "9223372036854710272\n", "9223372036854775807"}) {
    const Result<std::optional<std::uint64_t>> limit = parse_limit(text);
    ASSERT_TRUE(limit.has_value()) << text;
    EXPECT_FALSE(limit->has_value()) << text;
  }
}

TEST(LimitText, ANumberIsALimitWithAndWithoutNewline) {
  EXPECT_EQ(**parse_limit("536870912"), 536870912u);
  EXPECT_EQ(**parse_limit("536870912\n"), 536870912u);
  EXPECT_EQ(**parse_limit("0\n"), 0u);
}

TEST(LimitText, AnythingElseIsRefused) {
  for (const char* text : {"", "\n", "maximum", "-1", "12k", "1 2", "0x10", "99999999999999999999999"}) {
    EXPECT_FALSE(parse_limit(text).has_value()) << text;
  }
}

TEST(StatText, TheWholeKeyMustMatch) {
  const char* const stat = "file 10\ninactive_file 20\ntotal_inactive_file 30\nactive_file 40\n";
  EXPECT_EQ(stat_value(stat, "inactive_file"), 20u);
  EXPECT_EQ(stat_value(stat, "active_file"), 40u);
  EXPECT_EQ(stat_value(stat, "total_inactive_file"), 30u);
  EXPECT_EQ(stat_value(stat, "ctive_file"), std::nullopt);
  EXPECT_EQ(stat_value("file\nfile x", "file"), std::nullopt);
  EXPECT_EQ(stat_value("", "file"), std::nullopt);
}

TEST(MeminfoText, KilobytesBecomeBytes) {
  const char* const meminfo =
      "MemTotal:       24684084 kB\nMemFree:  1 kB\nMemAvailable:   23502684 kB\nHugePages_Total: 3\n";
  EXPECT_EQ(meminfo_bytes(meminfo, "MemTotal"), 24684084ull * 1024);
  EXPECT_EQ(meminfo_bytes(meminfo, "MemAvailable"), 23502684ull * 1024);
  EXPECT_EQ(meminfo_bytes(meminfo, "HugePages_Total"), std::nullopt);
  EXPECT_EQ(meminfo_bytes(meminfo, "Mem"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemTotal: 99999999999999999999 kB\n", "MemTotal"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemTotal: 18446744073709551615 kB\n", "MemTotal"), std::nullopt);
}

TEST(CgroupPathText, MemoryIsFoundAmongTheControllersOfALine) {
  const CgroupPaths paths =
      parse_cgroup_paths("12:cpu,cpuacct:/a\n11:hugetlb,memory,rdma:/b/c\n1:name=memory:/d\n0::/e\n");
  EXPECT_EQ(paths.v1_memory, "/b/c");
  EXPECT_EQ(paths.v2, "/e");
}

TEST(CgroupPathText, APathMayHoldColonsAndBlanks) {
  EXPECT_EQ(parse_cgroup_paths("0::/a:b/c d").v2, "/a:b/c d");
}

TEST(CgroupPathText, BrokenLinesAreNoPaths) {
  const CgroupPaths paths = parse_cgroup_paths("0:\n4:memory\n4:memory:relative\n::\n\n0::");
  EXPECT_EQ(paths.v1_memory, std::nullopt);
  EXPECT_EQ(paths.v2, std::nullopt);
}

TEST(MountText, FindsBothKindsAndUndoesEscapes) {
  const CgroupMounts mounts = parse_cgroup_mounts(
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
      "35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory\n"
      "36 31 0:33 / /sys/fs/cgroup/memory_like rw - cgroup cgroup rw,cpu,memoryfoo\n"
      "41 31 0:38 / /odd\\040place\\134x rw,relatime - cgroup2 cgroup2 rw\n");
  ASSERT_EQ(mounts.v1_memory.size(), 1u);
  EXPECT_EQ(mounts.v1_memory[0].root, "/docker/ab");
  EXPECT_EQ(mounts.v1_memory[0].where, "/sys/fs/cgroup/memory");
  ASSERT_EQ(mounts.v2.size(), 1u);
  EXPECT_EQ(mounts.v2[0].where, "/odd place\\x");
}

TEST(MountText, BrokenLinesAreNoMounts) {
  const CgroupMounts mounts =
      parse_cgroup_mounts("\n - \n1 2 3 - cgroup2\n1 2 3 rel /x rw - cgroup2 x rw\n1 2 3 / - cgroup2 x rw");
  EXPECT_TRUE(mounts.v1_memory.empty());
  EXPECT_TRUE(mounts.v2.empty());
}

}  // namespace
}  // namespace penstock
