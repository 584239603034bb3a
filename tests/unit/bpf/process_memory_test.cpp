// SPDX-License-Identifier: Apache-2.0
#include "bpf/process_memory.hpp"

#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/literal_tree.hpp"

namespace penstock {
namespace {

using test::LiteralTree;

constexpr std::string_view rollup =
    "55d0-7ffe ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:                1756 kB\nPss:                 279 kB\nPss_Anon:            112 kB\n"
    "Pss_File:            167 kB\nPss_Shmem:             5 kB\nAnonymous:           113 kB\n"
    "Swap:                 40 kB\nSwapPss:              20 kB\nLocked:                7 kB\n";
constexpr std::string_view status =
    "Name:\tpython\nVmLck:\t       8 kB\nRssAnon:\t     152 kB\nVmSwap:\t      16 kB\n";

UniqueFd own_pidfd() { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))); }

TEST(ProcessMemory, TheRollupTellsSharesOfWhatIsSharedAndAllOfWhatIsOwn) {
  const ProcessMemory memory = memory_of_rollup(rollup);
  EXPECT_EQ(memory.anonymous, 113u * 1024);
  EXPECT_EQ(memory.page_cache, 167u * 1024);
  EXPECT_EQ(memory.shared_memory, 5u * 1024);
  EXPECT_EQ(memory.locked, 7u * 1024);
  EXPECT_EQ(memory.swapped, 40u * 1024);
  EXPECT_EQ(memory.compressed, std::nullopt);
}

TEST(ProcessMemory, ALineThatIsDamagedOrMissingIsNotKnown) {
  EXPECT_EQ(memory_of_rollup("Anonymous: many kB\n").anonymous, std::nullopt);
  EXPECT_EQ(memory_of_rollup("Anonymous: 5\n").anonymous, std::nullopt);
  EXPECT_EQ(memory_of_rollup("Anonymous: 99999999999999999 kB\n").anonymous, std::nullopt);
  EXPECT_EQ(memory_of_rollup("Anonymously: 5 kB\n").anonymous, std::nullopt);
  EXPECT_EQ(memory_of_rollup("Anonymous:").anonymous, std::nullopt);
  EXPECT_EQ(memory_of_rollup("").swapped, std::nullopt);
}

TEST(ProcessMemory, WhatIsSwappedIsPartedOnlyWhereThereIsOnePlaceForIt) {
  const auto parted = [](std::uint64_t disk, std::uint64_t zram, std::optional<std::uint64_t> zswapped) {
    SwapSpace space;
    space.disk_bytes = disk;
    space.zram_bytes = zram;
    ProcessMemory memory{.swapped = 100};
    part_swapped(memory, space, zswapped);
    return std::pair(memory.compressed, memory.on_disk);
  };
  using Pair = std::pair<std::optional<std::uint64_t>, std::optional<std::uint64_t>>;
  EXPECT_EQ(parted(0, 1000, std::nullopt), Pair(100, 0));
  EXPECT_EQ(parted(1000, 0, 0), Pair(0, 100));
  EXPECT_EQ(parted(1000, 0, 50), Pair());
  EXPECT_EQ(parted(1000, 0, std::nullopt), Pair());
  EXPECT_EQ(parted(1000, 1000, 0), Pair());
  ProcessMemory nothing{.swapped = 0}, unknown;
  part_swapped(nothing, std::nullopt, std::nullopt);
  part_swapped(unknown, std::nullopt, 0);
  EXPECT_EQ(nothing.on_disk, 0u);
  EXPECT_EQ(unknown.on_disk, std::nullopt);
}

TEST(ProcessMemory, TheStatusFileStandsInForARollupThatIsRefused) {
  const UniqueFd pidfd = own_pidfd();
  const LiteralTree tree(
      {{"proc/7/status", status},
       {"proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1000 16 -2\n"},
       {"proc/meminfo", "MemTotal: 1 kB\nZswapped: 0 kB\n"}});
  tree.make_folder("proc/7/smaps_rollup");
  const Result<ProcessMemory> memory = read_process_memory(tree.root().get(), {7, pidfd.get()});
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->anonymous, 152u * 1024);
  EXPECT_EQ(memory->locked, 8u * 1024);
  EXPECT_EQ(memory->on_disk, 16u * 1024);
  EXPECT_EQ(memory->page_cache, std::nullopt);
  tree.remove("proc/meminfo");
  tree.write("sys/module/zswap/parameters/enabled", "Y\n");
  EXPECT_EQ(read_process_memory(tree.root().get(), {7, pidfd.get()})->on_disk, std::nullopt);
  EXPECT_EQ(read_process_memory(tree.root().get(), {8, pidfd.get()}).error().code, Errc::not_found);
}

TEST(ProcessMemory, ThePageTablesOfAHugeProcessAreNotWalked) {
  const UniqueFd pidfd = own_pidfd();
  const LiteralTree tree({{"proc/7/smaps_rollup", rollup}});
  constexpr std::uint64_t swapped = 3 * 1024;
  for (const auto& [used, walked] :
       {std::pair(walked_bytes_max, true), std::pair(walked_bytes_max + 1024, false)}) {
    tree.write("proc/7/status", fmt::format("VmRSS: {} kB\nRssAnon: 152 kB\nVmSwap: {} kB\n",
                                            (used - swapped) / 1024, swapped / 1024));
    const Result<ProcessMemory> memory = read_process_memory(tree.root().get(), {7, pidfd.get()});
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->page_cache.has_value(), walked);
    EXPECT_EQ(memory->anonymous == 152u * 1024, !walked);
  }
}

TEST(ProcessMemory, TheNumberOfAProcessThatEndedIsNotBelieved) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const LiteralTree tree;
  tree.write(fmt::format("proc/{}/smaps_rollup", child), rollup);
  EXPECT_EQ(read_process_memory(tree.root().get(), {child, pidfd.get()}).error().code, Errc::not_found);
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessMemory, SeesWhatThisProcessTouches) {
  const UniqueFd root(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), pidfd = own_pidfd();
  const ProcessRef self{::getpid(), pidfd.get()};
  const Result<ProcessMemory> before = read_process_memory(root.get(), self);
  ASSERT_TRUE(before && before->anonymous);
  const std::string block(16 << 20, 'x');
  const Result<ProcessMemory> after = read_process_memory(root.get(), self);
  ASSERT_TRUE(after && after->anonymous);
  EXPECT_GE(*after->anonymous + after->swapped.value_or(0), *before->anonymous + (15u << 20));
  EXPECT_EQ(block.back(), 'x');
}

}  // namespace
}  // namespace penstock
