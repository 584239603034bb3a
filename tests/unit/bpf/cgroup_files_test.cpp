// SPDX-License-Identifier: Apache-2.0
// Beyond the cases: mounts that show only a part of the hierarchy, files that vanish, the machine this runs on.
#include "bpf/cgroup_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

using test::LiteralTree;

constexpr const char* v1_container_mount =
    "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n";

TEST(CgroupFiles, AContainersMountIsItsOwnCgroup) {
  // The path is the host's, the mount shows the container's own cgroup.
  const LiteralTree tree({{"proc/self/cgroup", "4:memory:/docker/abc\n"},
                          {"proc/self/mountinfo", v1_container_mount},
                          {"sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"},
                          {"sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n"},
                          {"sys/fs/cgroup/memory/memory.stat", ""}});
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  EXPECT_EQ(files.read(warnings).max, 536870912u);
  EXPECT_TRUE(warnings.take().empty());
}

TEST(CgroupFiles, ACgroupBelowAContainersMountIsFound) {
  const LiteralTree tree({{"proc/self/cgroup", "4:memory:/docker/abc/worker\n"},
                          {"proc/self/mountinfo", v1_container_mount},
                          {"sys/fs/cgroup/memory/worker/memory.limit_in_bytes", "1048576\n"},
                          {"sys/fs/cgroup/memory/worker/memory.usage_in_bytes", "0\n"},
                          {"sys/fs/cgroup/memory/worker/memory.stat", ""}});
  Warnings warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings).read(warnings).max, 1048576u);
  EXPECT_TRUE(warnings.take().empty());
}

TEST(CgroupFiles, AMountOfAnotherCgroupIsUsedWithAWarning) {
  for (const char* path : {"4:memory:/docker/abcdef\n", "4:memory:/user\n"}) {
    const LiteralTree tree({{"proc/self/cgroup", path},
                            {"proc/self/mountinfo", v1_container_mount},
                            {"sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n"},
                            {"sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n"},
                            {"sys/fs/cgroup/memory/memory.stat", ""}});
    Warnings warnings;
    EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings).read(warnings).max, 1048576u) << path;
    EXPECT_EQ(warnings.take().size(), 1u) << path;
  }
}

TEST(CgroupFiles, TheMountThatShowsMoreOfThePathIsTaken) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a/b\n"},
                          {"proc/self/mountinfo",
                           "1 0 0:1 /other /first rw - cgroup2 none rw\n"
                           "2 0 0:1 /a/b /second rw - cgroup2 none rw\n"
                           "3 0 0:1 / /third rw - cgroup2 none rw\n"},
                          {"first/memory.max", "1\n"},
                          {"second/memory.max", "4096\n"},
                          {"third/memory.max", "2\n"}});
  Warnings warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings).read(warnings).max, 4096u);
}

TEST(CgroupFiles, ASymlinkIsNoCgroup) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/link\n"},
                          {"sys/fs/cgroup/memory.max", "max\n"},
                          {"elsewhere/memory.max", "1\n"}});
  std::filesystem::create_directory_symlink(tree.path() + "/elsewhere", tree.path() + "/sys/fs/cgroup/link");
  Warnings warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings).read(warnings).max, std::nullopt);
  EXPECT_EQ(warnings.take().size(), 1u);
}

TEST(CgroupFiles, WithoutUsageALimitIsKnownButNotTheHeadroom) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/memory.max", "4096\n"}});
  Warnings warnings;
  const CgroupMemory memory = CgroupFiles::open(tree.root().get(), warnings).read(warnings);
  EXPECT_EQ(memory.max, 4096u);
  EXPECT_EQ(memory.headroom, std::nullopt);
  EXPECT_EQ(warnings.take().size(), 1u);
}

TEST(CgroupFiles, WithoutStatTheCacheCountsAsUsed) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/\n"},
                          {"sys/fs/cgroup/memory.max", "4096\n"},
                          {"sys/fs/cgroup/memory.current", "1024\n"}});
  Warnings warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings).read(warnings).headroom, 3072u);
  EXPECT_EQ(warnings.take().size(), 1u);
}

TEST(CgroupFiles, UsageAboveTheLimitIsNoHeadroom) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/\n"},
                          {"sys/fs/cgroup/memory.max", "4096\n"},
                          {"sys/fs/cgroup/memory.current", "8192\n"},
                          {"sys/fs/cgroup/memory.stat", ""}});
  Warnings warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings).read(warnings).headroom, 0u);
}

TEST(CgroupFiles, AChangedLimitIsSeen) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/\n"},
                          {"sys/fs/cgroup/memory.max", "8192\n"},
                          {"sys/fs/cgroup/memory.current", "1024\n"},
                          {"sys/fs/cgroup/memory.stat", ""}});
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  EXPECT_EQ(files.read(warnings).headroom, 7168u);
  tree.write("sys/fs/cgroup/memory.max", "2048\n");
  tree.write("sys/fs/cgroup/memory.current", "512\n");
  EXPECT_EQ(files.read(warnings).headroom, 1536u);
}

TEST(CgroupFiles, ASystemWithoutCgroupsHasNoLimit) {
  const LiteralTree tree;
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  EXPECT_EQ(files.version(), CgroupVersion::none);
  EXPECT_EQ(files.read(warnings).max, std::nullopt);
  EXPECT_EQ(warnings.take().size(), 1u);
}

TEST(CgroupFiles, AControllerThatIsMountedNowhereIsNoLimit) {
  const LiteralTree tree({{"proc/self/cgroup", "4:memory:/a\n"}});
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  EXPECT_EQ(files.read(warnings).max, std::nullopt);
  EXPECT_EQ(warnings.take().size(), 1u);
}

TEST(CgroupFiles, HitsAreCountedWhereTheLimitSitsAndNotThoseOfItsDescendants) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a/b/c\n"},
                          {"sys/fs/cgroup/a/memory.max", "4096\n"},
                          {"sys/fs/cgroup/a/memory.events.local", "high 1\nmax 510\n"},
                          {"sys/fs/cgroup/a/memory.events", "high 1\nmax 9999\n"},
                          {"sys/fs/cgroup/a/b/memory.high", "2048\n"},
                          {"sys/fs/cgroup/a/b/memory.events", "high 70\nmax 2\n"},
                          {"sys/fs/cgroup/a/b/c/memory.max", "max\n"},
                          {"sys/fs/cgroup/a/b/c/memory.events.local", "high 0\nmax 0\n"}});
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  files.read(warnings);
  EXPECT_EQ(files.read_hits().max, 510u);
  // Kernels before 5.2 have no count without descendants.
  EXPECT_EQ(files.read_hits().high, 70u);
  // Of equals the inner one is met first.
  tree.write("sys/fs/cgroup/a/b/c/memory.max", "4096\n");
  tree.write("sys/fs/cgroup/a/b/c/memory.events.local", "high 0\nmax 3\n");
  files.read(warnings);
  EXPECT_EQ(files.read_hits().max, 3u);
}

TEST(CgroupFiles, WithoutALimitHitsAreTheCgroupsOwnAndWithoutAFileAbsent) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a/b\n"},
                          {"sys/fs/cgroup/a/memory.events.local", "high 5\nmax 5\n"},
                          {"sys/fs/cgroup/a/b/memory.events.local", "max 4\n"}});
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  EXPECT_EQ(files.read(warnings).max, std::nullopt);
  EXPECT_EQ(files.read_hits().max, 4u);
  EXPECT_EQ(files.read_hits().high, std::nullopt);
}

TEST(CgroupFiles, ThisMachineIsRead) {
  const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(root.get(), warnings);
  const CgroupMemory memory = files.read(warnings);
  if (files.version() == CgroupVersion::none) GTEST_SKIP() << "requires a kernel with cgroups";
  EXPECT_TRUE(files.path().starts_with('/'));
  if (memory.max) {
    EXPECT_GT(*memory.max, 0u);
    EXPECT_LT(*memory.max, std::uint64_t{1} << 62);
    EXPECT_TRUE(memory.headroom.has_value());
  }
  for (const std::string& warning : warnings.take())
    EXPECT_NE(warning.find("not visible"), std::string::npos) << warning;
}

TEST(CgroupFiles, TheTightestDirectoryIsThatWithTheLeastRoom) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/a/b\n"},
                          {"proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n"},
                          {"sys/fs/cgroup/a/memory.max", "1048576\n"},
                          {"sys/fs/cgroup/a/memory.current", "1000000\n"},
                          {"sys/fs/cgroup/a/memory.stat", ""},
                          {"sys/fs/cgroup/a/memory.pressure", "of a"},
                          {"sys/fs/cgroup/a/b/memory.max", "524288\n"},
                          {"sys/fs/cgroup/a/b/memory.current", "4096\n"},
                          {"sys/fs/cgroup/a/b/memory.stat", ""}});
  Warnings warnings;
  CgroupFiles files = CgroupFiles::open(tree.root().get(), warnings);
  EXPECT_EQ(files.tightest_directory(), -1);
  files.read(warnings);
  EXPECT_EQ(read_text(files.tightest_directory(), "memory.pressure").value_or(""), "of a");
  tree.write("sys/fs/cgroup/a/memory.current", "0\n");
  files.read(warnings);
  EXPECT_EQ(files.tightest_directory(), files.directory());
}

}  // namespace
}  // namespace penstock
