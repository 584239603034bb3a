// SPDX-License-Identifier: Apache-2.0
// What takes pages of a file here and has no equal on a machine with cgroup v1, or would disturb it: to the page, by cause.
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "bpf/cgroup_text.hpp"
#include "bpf/text_file.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/integration/vm/guest_cgroup.hpp"
#include "tests/support/random_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

using test::disagreement;
using test::Disk;
using test::GuestCgroup;
using test::ProbedFile;

constexpr std::uint64_t file_bytes = 4 * mib + 12345;
constexpr auto limit_cause = static_cast<std::size_t>(RemovalCause::memcg_limit);

int rounds() {
  const char* const wanted = std::getenv("PENSTOCK_PROBE_ROUNDS");
  return wanted != nullptr ? std::max(1, std::atoi(wanted)) : 2;
}

class CgroupV2Causes : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string missing;
    disk_ = Disk::make(GetParam(), missing);
    ASSERT_TRUE(disk_) << missing;
    path_ = disk_->folder() / "checkpoint";
    test::write_durably(disk_->origin() / "checkpoint", test::random_bytes(file_bytes, 7));
    test::drop_from_page_cache(path_);
    probes_ = KernelProbes::open();
    ASSERT_GE(probes_->level(), ProbeLevel::traced) << probes_->report().front().why;
    file_ = std::make_unique<ProbedFile>(*probes_, path_);
    ASSERT_EQ(file_->tracking().why, "");
  }
  // Pages that the limits of a cgroup took, so far.
  std::uint64_t taken() { return file_->sample().traffic->removed_bytes[limit_cause]; }
  std::string read_in(const GuestCgroup& cgroup) {
    return cgroup.run([&] { return std::string(test::read_in_pieces(path_) ? "read" : "failed"); });
  }
  void expect_agreement(const char* after, RemovalCause cause) {
    EXPECT_EQ(disagreement(*file_, cause), "") << "after " << after << " on " << GetParam();
  }

  std::unique_ptr<Disk> disk_;
  std::filesystem::path path_;
  std::unique_ptr<KernelProbes> probes_;
  std::unique_ptr<ProbedFile> file_;
};

TEST_P(CgroupV2Causes, HighAndReclaimTakePagesAsALimitDoes) {
  const GuestCgroup cgroup("causes");
  // It reads 4 MiB ahead, more than it may keep: then each read takes many.
  const int times = std::string_view(GetParam()) == "btrfs" ? std::min(2, rounds()) : rounds();
  for (int round = 0; round < times; ++round) {
    const std::uint64_t before = taken();
    cgroup.write("memory.high", 2 * mib);
    EXPECT_EQ(read_in(cgroup), "read");
    expect_agreement("reading past memory.high", RemovalCause::memcg_limit);
    const std::uint64_t by_high = taken() - before;
    EXPECT_GE(by_high, file_bytes - 2 * mib);

    cgroup.write("memory.high", "max");
    EXPECT_EQ(read_in(cgroup), "read");
    expect_agreement("reading without a limit", RemovalCause::other);
    // The kernel says EAGAIN where it found less than it was asked for.
    (void)cgroup.try_write("memory.reclaim", "2M");
    expect_agreement("memory.reclaim", RemovalCause::memcg_limit);
    EXPECT_GE(taken() - before - by_high, 1 * mib);

    test::drop_from_page_cache(path_);
    expect_agreement("fadvise", RemovalCause::fadvise);
    EXPECT_EQ(file_->mincore_pages(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(FileSystems, CgroupV2Causes, testing::Values("ext4", "xfs", "btrfs", "overlay"),
                         [](const auto& name) { return std::string(name.param); });

std::uint64_t figure_of(const char* path, const char* key) {
  const auto text = read_text(AT_FDCWD, path);
  CHECK(text);
  return stat_value(*text, key).value_or(0);
}

// Takes all memory that is free, and that much of what is not. The kernel's reserve comes from the page cache as well.
void squeeze(std::uint64_t to_take) {
  const std::uint64_t bytes = figure_of("/proc/vmstat", "nr_free_pages") * 4096 + to_take;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  volatile char* const at = static_cast<char*>(memory);
  for (std::uint64_t page = 0; page < bytes; page += 4096) at[page] = 1;
  ::munmap(memory, bytes);
}

TEST(MachineReclaim, KswapdAndDirectReclaimAreToldApartAndNoMoreThanTheKernelCounts) {
  constexpr std::uint64_t cached = 96 * mib;
  // No loop device: its image would be in the page cache too.
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "checkpoint";
  test::write_durably(path, std::vector<std::byte>(cached));
  std::ofstream("/proc/sys/vm/drop_caches") << "1";
  const auto probes = KernelProbes::open();
  ProbedFile file(*probes, path);
  ASSERT_TRUE(test::read_in_pieces(path));
  ASSERT_EQ(file.sample().resident_bytes, cached);
  const std::uint64_t by_kswapd = figure_of("/proc/vmstat", "pgsteal_kswapd");
  const std::uint64_t directly = figure_of("/proc/vmstat", "pgsteal_direct");
  const GuestCgroup cgroup("squeezes");
  EXPECT_EQ(cgroup.run([&] {
    squeeze(32 * mib);
    return std::string("squeezed");
  }),
            "squeezed");
  const FileTraffic traffic = *file.sample().traffic;
  const auto pages = [&](RemovalCause cause) {
    return traffic.removed_bytes[static_cast<std::size_t>(cause)] / 4096;
  };
  const std::uint64_t kernel_kswapd = figure_of("/proc/vmstat", "pgsteal_kswapd") - by_kswapd;
  const std::uint64_t kernel_direct = figure_of("/proc/vmstat", "pgsteal_direct") - directly;
  fmt::print("kswapd {} of the kernel's {}, direct {} of {}\n", pages(RemovalCause::kswapd), kernel_kswapd,
             pages(RemovalCause::direct_reclaim), kernel_direct);
  EXPECT_GT(pages(RemovalCause::kswapd) + pages(RemovalCause::direct_reclaim), 16 * mib / 4096);
  EXPECT_LE(pages(RemovalCause::kswapd), kernel_kswapd);
  EXPECT_LE(pages(RemovalCause::direct_reclaim), kernel_direct);
  // Nearly all that could be taken was this file's.
  EXPECT_GE(pages(RemovalCause::kswapd) * 10, kernel_kswapd * 8);
  EXPECT_GE(pages(RemovalCause::direct_reclaim) * 10, kernel_direct * 8);
  EXPECT_EQ(pages(RemovalCause::memcg_limit) + pages(RemovalCause::other_reclaim), 0u);
  EXPECT_EQ(disagreement(file, RemovalCause::kswapd), "");
  EXPECT_GT(probes->sample_machine().kswapd_wakes.value_or(0), 0u);
}

}  // namespace
}  // namespace penstock
