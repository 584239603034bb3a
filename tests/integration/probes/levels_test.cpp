// SPDX-License-Identifier: Apache-2.0
// What is left when the kernel allows less, and that it says so. And that nothing of ours stays behind.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/kernel_btf.hpp"
#include "bpf/probe_plan.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/integration/probes/kernel_programs.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/in_child.hpp"
#include "tests/support/random_file.hpp"

namespace penstock {
namespace {

using test::ProbedFile;
using test::programs_named;

constexpr std::uint64_t file_bytes = 4 * mib;

// Keeps only those capabilities of the current ones that are not named.
void drop_capabilities(std::initializer_list<unsigned> numbers) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2]{};
  CHECK(::syscall(SYS_capget, &header, data) == 0);
  for (const unsigned number : numbers) {
    data[number / 32].effective &= ~(1u << number % 32);
    data[number / 32].permitted &= ~(1u << number % 32);
    data[number / 32].inheritable = 0;
  }
  CHECK(::syscall(SYS_capset, &header, data) == 0);
}

// One line: the level, what tracking `path` came to, and the page cache probe's reason; that the counts agree.
std::string story(const std::filesystem::path& path, const ProbeOptions& options = test::with_fault_times) {
  const auto probes = KernelProbes::open(options);
  ProbedFile file(*probes, path);
  const test::FileCounts counts = file.counts();
  const FileSample& sample = counts.sample;
  std::string line =
      fmt::format("{} {} ", probe_level_name(probes->level()), probe_level_name(file.tracking().level));
  if (sample.traffic) line += "traffic ";
  if (sample.resident_bytes == counts.mincore_bytes()) line += "exact ";
  if (!sample.resident_bytes) line += "absent ";
  if (probes->sample_machine().oom_kills) line += "kills ";
  line += fmt::format("cgroups={} hints={} ", probes->sample_cgroups().size(), probes->hint_fd() >= 0);
  line += fmt::format("warnings={} ", probes->warnings().size());
  return line + probes->report().front().why;
}

// How root is answered here without BPF: cachestat from kernel 6.5 on, else mincore.
std::string asked() {
  static const std::string level = [] {
    constexpr long cachestat_number = 451;  // The same on all architectures; this libc has no name for it.
    const UniqueFd self(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    std::array<std::uint64_t, 2> range{0, 4096};
    std::array<std::uint64_t, 5> answer{};
    const bool answers = ::syscall(cachestat_number, self.get(), range.data(), answer.data(), 0) == 0;
    return answers ? "cachestat" : "mincore";
  }();
  return level;
}

// Of the system call bpf(2), those that attach: programs load, and none may be attached.
void deny_attaching() {
  std::array<sock_filter, 7> filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_LINK_CREATE, 2, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_RAW_TRACEPOINT_OPEN, 1, 0),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
  };
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

void expect_start(const std::string& told, const std::string& start) {
  EXPECT_EQ(told.substr(0, start.size()), start);
}

class ProbeLevels : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "requires root, to take rights away";
    const std::string missing = test::tracing_lacks();
    if (!missing.empty()) GTEST_SKIP() << missing;
    if (!folder_.missing().empty()) GTEST_SKIP() << "requires " << folder_.missing();
    path_ = folder_ / "checkpoint";
    test::write_durably(path_, test::random_bytes(file_bytes, 9));
    test::bring_into_page_cache(path_);
  }
  std::set<std::uint32_t> new_programs() const {
    std::set<std::uint32_t> fresh = programs_named("page_cache_add");
    for (const std::uint32_t id : programs_) fresh.erase(id);
    return fresh;
  }
  void expect_nothing_left() {
    // The kernel takes its time, also for those of the test before.
    EXPECT_TRUE(eventually([&] { return new_programs().empty(); }));
  }

  test::DiskFolder folder_;
  std::filesystem::path path_;
  const std::set<std::uint32_t> programs_ = programs_named("page_cache_add");  // From before the test.
};

TEST_F(ProbeLevels, WithAllRightsPagesAreTraced) {
  expect_start(test::in_child([&] { return story(path_); }),
               "traced_and_faults traced_and_faults traffic exact kills ");
  expect_nothing_left();
}

TEST_F(ProbeLevels, FaultsAreTimedOnlyWhereThatIsAskedFor) {
  const std::string told = test::in_child([&] { return story(path_, {}); });
  expect_start(told, "traced traced traffic exact kills ");
  EXPECT_NE(told.find("warnings=0"), std::string::npos) << told;
}

TEST_F(ProbeLevels, AllProbesAreAttachedHereAndSayHow) {
  const auto probes = KernelProbes::open(test::with_fault_times);
  for (const ProbeReport& report : probes->report()) {
    EXPECT_TRUE(report.attached) << report.name << ": " << report.why;
    EXPECT_FALSE(report.how.empty()) << report.name;
    EXPECT_EQ(report.missed, 0u);
  }
}

TEST_F(ProbeLevels, WhatLoadsAndMayNotBeAttachedGivesWayToTheNextAlternative) {
  const Result<KernelBtf> types = KernelBtf::load();
  if (!types || !types->symbols().first_argument("mm_filemap_fault"))
    GTEST_SKIP() << "requires a kernel with the tracepoint mm_filemap_fault";
  const std::string told = test::in_child([] {
    deny_attaching();
    return KernelProbes::open(test::with_fault_times)
        ->report()[static_cast<std::size_t>(Probe::major_faults)]
        .why;
  });
  EXPECT_NE(told.find("tp_btf/mm_filemap_fault and the event page-faults-maj: attach: EACCES"),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("; fentry/filemap_fault and the event page-faults-maj: "), std::string::npos) << told;
  expect_nothing_left();
}

TEST_F(ProbeLevels, WithoutBpfTheKernelIsAsked) {
  EXPECT_EQ(test::in_child([&] { return story(path_, {.use_bpf = false, .programs = {}}); }),
            fmt::format("{0} {0} exact cgroups=0 hints=false warnings=1 turned off", asked()));
}

TEST_F(ProbeLevels, WithoutBpfAnOverlaysFileIsAskedForThroughMincore) {
  std::string missing;
  const auto overlay = test::Disk::make("overlay", missing);
  if (!overlay) GTEST_SKIP() << "requires " << missing;
  test::write_durably(overlay->origin() / "checkpoint", test::random_bytes(file_bytes, 9));
  const auto probes = KernelProbes::open({.use_bpf = false, .programs = {}});
  ProbedFile file(*probes, overlay->folder() / "checkpoint");
  EXPECT_EQ(file.tracking().level, ProbeLevel::mincore);
  EXPECT_NE(file.tracking().why.find("overlayfs"), std::string::npos) << file.tracking().why;
  test::bring_into_page_cache(overlay->folder() / "checkpoint");
  const test::FileCounts counts = file.counts();
  EXPECT_EQ(counts.sample.resident_bytes, counts.mincore_bytes());
  EXPECT_GT(counts.mincore_bytes(), 0u);
}

TEST_F(ProbeLevels, WithoutPerfmonProgramsAreRefusedAndTheCapabilityIsNamed) {
  const std::string told = test::in_child([&] {
    drop_capabilities({21, 38});  // CAP_SYS_ADMIN, which would suffice, and CAP_PERFMON.
    return story(path_);
  });
  expect_start(told, fmt::format("{0} {0} exact ", asked()));
  EXPECT_NE(told.find("program load: EPERM; CAP_PERFMON is missing"), std::string::npos) << told;
  expect_nothing_left();
}

TEST(CaseC05, WithoutTypesOfTheKernelTheReasonIsOneLine) {
  if (::geteuid() != 0) GTEST_SKIP() << "requires root, to hide /sys/kernel/btf";
  const std::string missing = test::tracing_lacks();
  if (!missing.empty()) GTEST_SKIP() << missing;
  const test::DiskFolder folder;
  if (!folder.missing().empty()) GTEST_SKIP() << "requires " << folder.missing();
  const std::filesystem::path path = folder / "checkpoint";
  test::write_durably(path, test::random_bytes(file_bytes, 9));
  const std::string told = test::in_child([&] {
    CHECK(::unshare(CLONE_NEWNS) == 0);
    CHECK(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    CHECK(::mount("tmpfs", "/sys/kernel/btf", "tmpfs", 0, nullptr) == 0);
    return story(path);
  });
  expect_start(told, fmt::format("{0} {0} exact ", asked()));
  EXPECT_NE(told.find("kernel BTF not found"), std::string::npos) << told;
}

TEST(CaseC05, FoliosAreCountedByTheirPages) {
  std::string missing = test::tracing_lacks();
  if (!missing.empty()) GTEST_SKIP() << missing;
  const auto ext4 = test::Disk::make("ext4", missing);
  if (!ext4) GTEST_SKIP() << "requires " << missing;
  const std::filesystem::path path = ext4->folder() / "cold";
  test::write_durably(path, test::random_bytes(64 * mib, 2));
  test::drop_from_page_cache(path);
  const auto probes = KernelProbes::open();
  ProbedFile file(*probes, path);
  ASSERT_TRUE(test::read_in_pieces(path));
  EXPECT_EQ(file.sample().traffic->added_bytes, 67'108'864u);
}

class CaseC06 : public ProbeLevels {};

TEST_F(CaseC06, NobodyWithoutCapabilitiesIsToldWhichAreMissing) {
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  folder_.open_to_others();
  const std::string told = test::in_child([&] {
    test::drop_rights(64 * kib);
    return story(path_);
  });
  // Its own file may be asked about; the machine's level is that of files of others.
  expect_start(told, fmt::format("none {} exact ", asked()));
  EXPECT_NE(told.find("program load: EPERM; CAP_BPF and CAP_PERFMON are missing"), std::string::npos) << told;
  expect_nothing_left();
}

TEST_F(CaseC06, NobodyIsNotToldWhatOthersFilesHold) {
  folder_.open_to_others();
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  const std::string told = test::in_child([&] {
    test::drop_rights(64 * kib);
    return story(path_);
  });
  expect_start(told, "none none absent ");
}

TEST_F(CaseC06, RootWithoutBothCapabilitiesIsToldSo) {
  const std::string told = test::in_child([&] {
    drop_capabilities({21, 38, 39});
    return story(path_);
  });
  expect_start(told, fmt::format("{0} {0} exact ", asked()));
  EXPECT_NE(told.find("CAP_BPF and CAP_PERFMON are missing"), std::string::npos) << told;
  expect_nothing_left();
}

TEST_F(CaseC06, AFilterThatDeniesTheCallIsNotTakenForAMissingCapability) {
  const std::string told = test::in_child([&] {
    test::deny_system_calls(SYS_bpf, SYS_bpf, EPERM);
    return story(path_);
  });
  expect_start(told, fmt::format("{0} {0} exact ", asked()));
  EXPECT_NE(told.find("program load: EPERM; capabilities suffice"), std::string::npos) << told;
}

TEST_F(CaseC06, LittleLockedMemoryIsNoObstacleForWhoHasTheCapabilities) {
  const std::string told = test::in_child([&] {
    const rlimit limit{.rlim_cur = 64 * kib, .rlim_max = 64 * kib};
    CHECK(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    return story(path_);
  });
  expect_start(told, "traced_and_faults traced_and_faults traffic ");
}

TEST_F(ProbeLevels, NothingStaysInTheKernelAfterAKill) {
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  UniqueFd reading(ready[0]), writing(ready[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto probes = KernelProbes::open();
    const ProbedFile file(*probes, path_);
    (void)!::write(writing.get(), "r", 1);
    while (true) ::pause();
  }
  writing.reset();
  char letter = 0;
  ASSERT_EQ(::read(reading.get(), &letter, 1), 1);
  EXPECT_FALSE(new_programs().empty());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  expect_nothing_left();
}

}  // namespace
}  // namespace penstock
