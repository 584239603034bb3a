// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/cgroup_files.hpp"
#include "bpf/cgroup_use.hpp"
#include "bpf/swap_space.hpp"
#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

using test::LiteralTree;

TEST(CgroupUse, V2TellsSharedMemoryFromFilesAndCompressedFromSwapped) {
  const LiteralTree tree({{"memory.stat", "anon 1000\nfile 500\nshmem 200\nzswap 30\nzswapped 90\n"},
                          {"memory.swap.current", "4096\n"},
                          {"memory.events", "low 0\nhigh 3\nmax 7\noom 2\noom_kill 1\n"}});
  CgroupUseFiles files(CgroupVersion::v2);
  const CgroupUse use = files.read_use(tree.root().get());
  EXPECT_EQ(use.anonymous, 1000u);
  EXPECT_EQ(use.page_cache, 300u);
  EXPECT_EQ(use.shared_memory, 200u);
  EXPECT_EQ(use.swapped, 4096u);
  EXPECT_EQ(use.zswapped, 90u);
  EXPECT_EQ(use.zswapped_to, 30u);
  EXPECT_EQ(use.compressed, std::nullopt);  // There may be zram behind it.
  const CgroupEvents events = files.read_events(tree.root().get());
  EXPECT_EQ(events.limit_hits, 7u);
  EXPECT_EQ(events.high_hits, 3u);
  EXPECT_EQ(events.oom_kills, 1u);
}

TEST(CgroupUse, V1CountsDescendantsAndKnowsNoHighLine) {
  const LiteralTree tree(
      {{"memory.stat",
        "cache 1\nrss 1\nshmem 1\nswap 1\ntotal_cache 500\ntotal_rss 1000\ntotal_shmem 200\ntotal_swap 70\n"},
       {"memory.failcnt", "9\n"},
       {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}});
  CgroupUseFiles files(CgroupVersion::v1);
  const CgroupUse use = files.read_use(tree.root().get());
  EXPECT_EQ(use.anonymous, 1000u);
  EXPECT_EQ(use.page_cache, 300u);
  EXPECT_EQ(use.shared_memory, 200u);
  EXPECT_EQ(use.swapped, 70u);
  EXPECT_EQ(use.compressed, std::nullopt);
  const CgroupEvents events = files.read_events(tree.root().get());
  EXPECT_EQ(events.limit_hits, 9u);
  EXPECT_EQ(events.high_hits, std::nullopt);
  EXPECT_EQ(events.oom_kills, 2u);
}

TEST(CgroupUse, WhatIsNotThereIsAbsentAndNotZero) {
  const LiteralTree tree({{"memory.stat", "anon 5\n"}});
  CgroupUseFiles v2(CgroupVersion::v2), v1(CgroupVersion::v1);
  EXPECT_EQ(v2.read_use(tree.root().get()).swapped, std::nullopt);
  EXPECT_EQ(v2.read_use(tree.root().get()).page_cache, std::nullopt);
  EXPECT_EQ(v2.read_events(tree.root().get()).oom_kills, std::nullopt);
  EXPECT_EQ(v1.read_use(tree.root().get()).anonymous, std::nullopt);
  EXPECT_EQ(v1.read_events(tree.root().get()).limit_hits, std::nullopt);
  EXPECT_EQ(CgroupUseFiles(CgroupVersion::v2).read_use(-1).anonymous, std::nullopt);
}

constexpr std::string_view disk_alone = "Filename Type Size Used Priority\n/dev/sda2 partition 1000 16 -2\n";
constexpr std::string_view zram_alone =
    "Filename Type Size Used Priority\n/dev/zram0 partition 1000 16 100\n";
constexpr std::string_view both_kinds =
    "Filename Type Size Used Priority\n/dev/sda2 partition 1000 16 -2\n/dev/zram0 partition 1000 16 100\n";
constexpr std::string_view zram_unused =
    "Filename Type Size Used Priority\n/dev/sda2 partition 1000 16 -2\n/dev/zram0 partition 1000 0 100\n";
constexpr std::string_view disk_unused =
    "Filename Type Size Used Priority\n/dev/sda2 partition 1000 0 -2\n/dev/zram0 partition 1000 16 100\n";
constexpr std::string_view none_used_yet =
    "Filename Type Size Used Priority\n/dev/sda2 partition 1000 0 -2\n/dev/zram0 partition 1000 0 100\n";
constexpr std::string_view no_swap = "Filename Type Size Used Priority\n";

using Parts = std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>>;

Parts parts_of(const LiteralTree& tree, CgroupVersion version) {
  const CgroupUse use = CgroupUseFiles(version, tree.root().get()).read_use(tree.root().get());
  return {use.compressed, use.on_disk};
}

TEST(CgroupUse, WhatIsSwappedLiesOnZramOrOnADiskWhereThereIsOneKind) {
  const auto v2 = [](std::string_view swaps, std::string_view stat, std::string_view swapped) {
    return parts_of(
        LiteralTree({{"memory.stat", stat}, {"memory.swap.current", swapped}, {"proc/swaps", swaps}}),
        CgroupVersion::v2);
  };
  EXPECT_EQ(v2(zram_alone, "anon 1\nzswapped 0\n", "4096"), Parts(4096, 0));
  EXPECT_EQ(v2(disk_alone, "anon 1\nzswapped 1000\n", "4096"), Parts(1000, 3096));
  // Not in step: the files are read one after the other.
  EXPECT_EQ(v2(disk_alone, "anon 1\nzswapped 5000\n", "4096"), Parts(4096, 0));
  EXPECT_EQ(v2(both_kinds, "anon 1\nzswapped 0\n", "4096"), Parts());
  // A kind that is there and holds nothing.
  EXPECT_EQ(v2(zram_unused, "anon 1\nzswapped 1000\n", "4096"), Parts(1000, 3096));
  EXPECT_EQ(v2(disk_unused, "anon 1\nzswapped 0\n", "4096"), Parts(4096, 0));
  EXPECT_EQ(v2(none_used_yet, "anon 1\nzswapped 0\n", "4096"), Parts());
  EXPECT_EQ(v2(no_swap, "anon 1\nzswapped 0\n", "4096"), Parts());
  EXPECT_EQ(v2(no_swap, "anon 1\n", "0"), Parts(0, 0));
  EXPECT_EQ(parts_of(LiteralTree({{"memory.stat", "anon 1\n"}}), CgroupVersion::v2), Parts());
}

TEST(CgroupUse, V1HasNoFigureOfZswapSoThatTheMachinesDecides) {
  const auto v1 = [](std::string_view meminfo) {
    return parts_of(LiteralTree({{"memory.stat", "total_rss 1\ntotal_swap 4096\n"},
                                 {"proc/swaps", disk_alone},
                                 {"proc/meminfo", meminfo}}),
                    CgroupVersion::v1);
  };
  EXPECT_EQ(v1("Zswapped: 0 kB\n"), Parts(0, 4096));
  EXPECT_EQ(v1("Zswapped: 4 kB\n"), Parts());
}

TEST(SwapSpace, ZramIsToldFromADisk) {
  const LiteralTree tree({{"proc/swaps",
                           "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
                           "/dev/zram0                              partition\t8388604\t\t1024\t\t100\n"
                           "/dev/nvme0n1p3                          partition\t4194300\t\t512\t\t-2\n"
                           "/swap\\040file                           file\t\t100\t\t0\t\t-3\n"},
                          {"sys/block/zram0/mm_stat", "1048576 262144 300000 0 300000 0 0 0 0\n"}});
  const std::optional<SwapSpace> space = read_swap_space(tree.root().get());
  ASSERT_TRUE(space);
  EXPECT_EQ(space->zram_bytes, 8388604ull * 1024);
  EXPECT_EQ(space->zram_used_bytes, 1048576u);
  EXPECT_EQ(space->zram_memory_bytes, 300000u);
  EXPECT_EQ(space->disk_bytes, (4194300ull + 100) * 1024);
  EXPECT_EQ(space->disk_used_bytes, 512u * 1024);
}

TEST(SwapSpace, WithoutSwapIsZeroAndUnreadableIsAbsent) {
  const std::optional<SwapSpace> none = read_swap_space(
      LiteralTree({{"proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"}}).root().get());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->disk_bytes + none->zram_bytes, 0u);
  EXPECT_FALSE(none->zram_memory_bytes);
  EXPECT_FALSE(read_swap_space(LiteralTree().root().get()));
  EXPECT_TRUE(parse_swaps("/dev/sda1 partition 99999999999999999999 0 1\nx\n\n").empty());
}

constexpr const char* hybrid_mounts =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(CgroupOfAProcess, AClientsOwnLimitIsReadNotTheServices) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/service\n"},
                          {"proc/77/cgroup", "0::/clients/a\n"},
                          {"sys/fs/cgroup/service/memory.max", "1000\n"},
                          {"sys/fs/cgroup/clients/a/memory.max", "2000\n"}});
  Warnings warnings;
  const UniqueFd alive(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  Result<CgroupFiles> files = CgroupFiles::open(tree.root().get(), {77, alive.get()}, warnings);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->path(), "/clients/a");
  EXPECT_EQ(files->read(warnings).max, 2000u);
  struct stat status {};
  ASSERT_EQ(::stat((tree.path() + "/sys/fs/cgroup/clients/a").c_str(), &status), 0);
  EXPECT_EQ(files->id(), status.st_ino);
}

TEST(CgroupOfAProcess, ItIsHeldByItsDirectoryWhateverItsPathBecomes) {
  const LiteralTree tree({{"proc/77/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/memory.max", "2000\n"}});
  Warnings warnings;
  const UniqueFd alive(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  Result<CgroupFiles> files = CgroupFiles::open(tree.root().get(), {77, alive.get()}, warnings);
  ASSERT_TRUE(files);
  std::filesystem::rename(tree.path() + "/sys/fs/cgroup/a", tree.path() + "/sys/fs/cgroup/b");
  tree.write("sys/fs/cgroup/a/memory.max", "1\n");
  EXPECT_EQ(files->read(warnings).max, 2000u);
}

// That of the mount would be the service's own, in a container, or the machine's.
TEST(CgroupOfAProcess, OneThatIsHiddenIsNotTakenForTheMount) {
  const LiteralTree tree({{"proc/self/cgroup", "0::/../x\n"},
                          {"proc/77/cgroup", "0::/../x\n"},
                          {"proc/78/cgroup", "0::/not-there\n"},
                          {"sys/fs/cgroup/memory.max", "1000\n"}});
  Warnings of_service, warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), of_service).read(of_service).max, 1000u);
  const UniqueFd alive(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  for (const int pid : {77, 78, 77}) {
    Result<CgroupFiles> files = CgroupFiles::open(tree.root().get(), {pid, alive.get()}, warnings);
    ASSERT_TRUE(files);
    EXPECT_EQ(files->directory(), -1);
    EXPECT_EQ(files->id(), 0u);
    EXPECT_EQ(files->read(warnings).max, std::nullopt);
  }
  const std::vector<std::string> said = warnings.take();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[0].find("outside the service's cgroup namespace"), std::string::npos);
  EXPECT_NE(said[1].find("not below /sys/fs/cgroup"), std::string::npos);
}

TEST(CgroupOfAProcess, ANumberWhoseProcessHasEndedIsNotBelieved) {
  const LiteralTree tree({{"proc/77/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/memory.max", "2000\n"}});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  Warnings warnings;
  const Result<CgroupFiles> files = CgroupFiles::open(tree.root().get(), {77, ended.get()}, warnings);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, Errc::not_found);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(CgroupOfAProcess, AHybridSystemHasPressureInTheUnifiedHierarchy) {
  const LiteralTree tree({{"proc/self/cgroup", "4:memory:/m\n0::/u\n"},
                          {"proc/self/mountinfo", hybrid_mounts},
                          {"sys/fs/cgroup/memory/m/memory.limit_in_bytes", "3000\n"},
                          {"sys/fs/cgroup/unified/u/memory.pressure", "some avg10=0.00 total=5\n"}});
  Warnings warnings;
  CgroupFiles limits = CgroupFiles::open(tree.root().get(), warnings);
  const CgroupFiles pressure = CgroupFiles::open(tree.root().get(), warnings, CgroupHierarchy::unified);
  EXPECT_EQ(limits.read(warnings).max, 3000u);
  EXPECT_EQ(pressure.version(), CgroupVersion::v2);
  EXPECT_TRUE(read_text(pressure.directory(), "memory.pressure"));
  EXPECT_FALSE(read_text(limits.directory(), "memory.pressure"));
}

TEST(CgroupOfAProcess, PureV1HasNoUnifiedHierarchyAndNoWarning) {
  const LiteralTree tree({{"proc/self/cgroup", "4:memory:/m\n"}});
  Warnings warnings;
  EXPECT_EQ(CgroupFiles::open(tree.root().get(), warnings, CgroupHierarchy::unified).directory(), -1);
  EXPECT_TRUE(warnings.take().empty());
}

}  // namespace
}  // namespace penstock
