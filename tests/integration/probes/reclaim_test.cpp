// SPDX-License-Identifier: Apache-2.0
// Reclaim, kills and major faults: to whom they are booked, how long they took, and the hints that tell of them.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataplane/base/units.hpp"
#include "tests/integration/headroom/limited_cgroup.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/support/random_file.hpp"

namespace penstock {
namespace {

using test::ProbedFile;

constexpr std::uint64_t file_bytes = 24 * mib;

class ReclaimProbes : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = test::tracing_lacks();
    if (!missing.empty()) GTEST_SKIP() << missing;
    std::string why;
    cgroup_ = test::LimitedCgroup::make(12 * mib, why);
    if (!cgroup_) GTEST_SKIP() << why;
    if (!folder_.missing().empty()) GTEST_SKIP() << "requires " << folder_.missing();
    path_ = folder_ / "checkpoint";
    test::write_durably(path_, test::random_bytes(file_bytes, 5));
    test::drop_from_page_cache(path_);
  }
  std::optional<CgroupSample> sample_of(KernelProbes& probes, std::uint64_t id) {
    for (const CgroupSample& sample : probes.sample_cgroups()) {
      if (sample.id == id) return sample;
    }
    return std::nullopt;
  }
  void read_under_the_limit() {
    ASSERT_EQ(
        cgroup_->run([&] { return test::read_in_pieces(path_) && test::read_in_pieces(path_) ? 0 : 1; }), 0);
  }

  test::DiskFolder folder_;
  std::filesystem::path path_;
  std::unique_ptr<test::LimitedCgroup> cgroup_;
};

TEST_F(ReclaimProbes, ALimitsReclaimIsBookedToTheCgroupThatHadToDoIt) {
  const auto probes = KernelProbes::open();
  const std::uint64_t id = cgroup_->id();
  read_under_the_limit();
  const std::optional<CgroupSample> sample = sample_of(*probes, id);
  ASSERT_TRUE(sample);
  const ReclaimSample& memcg = sample->reclaim[static_cast<std::size_t>(ReclaimKind::memcg)];
  EXPECT_GT(memcg.episodes, 0u);
  EXPECT_GE(memcg.bytes, 2 * file_bytes - 12 * mib - 1 * mib);
  EXPECT_GT(memcg.ns, 0u);
  EXPECT_LE(memcg.longest_ns, memcg.ns);
  EXPECT_GE(memcg.longest_ns, memcg.ns / memcg.episodes);
  const auto durations =
      probes->sample_machine().reclaim_durations[static_cast<std::size_t>(ReclaimKind::memcg)];
  ASSERT_TRUE(durations);
  std::uint64_t in_buckets = 0;
  for (const std::uint64_t count : *durations) in_buckets += count;
  EXPECT_GE(in_buckets, memcg.episodes);
}

TEST_F(ReclaimProbes, WithoutItsProbeACauseIsAbsentAndNoOtherTakesItsPages) {
  constexpr std::uint32_t without = 1u << static_cast<unsigned>(Probe::memcg_reclaim);
  const auto probes = KernelProbes::open({.use_bpf = true, .programs = {.left_out = without}});
  EXPECT_EQ(probes->level(), ProbeLevel::traced);
  EXPECT_EQ(
      probes->warnings(),
      (std::vector<std::string>{"probe memcg_reclaim is not attached: turned off",
                                "pages that reclaim takes are not told apart by these causes: memcg_limit, "
                                "other_reclaim"}));
  ProbedFile file(*probes, path_);
  read_under_the_limit();
  const FileTraffic traffic = *file.sample().traffic;
  EXPECT_EQ(traffic.removed_by(RemovalCause::memcg_limit), std::nullopt);
  EXPECT_EQ(traffic.removed_by(RemovalCause::other_reclaim), std::nullopt);
  EXPECT_TRUE(traffic.removed_by(RemovalCause::kswapd));
  EXPECT_TRUE(traffic.removed_by(RemovalCause::direct_reclaim));
  EXPECT_GE(traffic.removed_bytes_in_all(), 2 * file_bytes - 12 * mib - 1 * mib);
  for (const RemovalCause cause :
       {RemovalCause::fadvise, RemovalCause::direct_write, RemovalCause::truncate, RemovalCause::other})
    EXPECT_EQ(traffic.removed_by(cause), 0u) << removal_cause_name(cause);
}

TEST_F(ReclaimProbes, ARemovedCgroupsSumsStay) {
  const auto probes = KernelProbes::open();
  const std::uint64_t id = cgroup_->id();
  read_under_the_limit();
  const std::uint64_t booked =
      sample_of(*probes, id)->reclaim[static_cast<std::size_t>(ReclaimKind::memcg)].bytes;
  cgroup_.reset();
  EXPECT_FALSE(sample_of(*probes, id));
  const std::optional<CgroupSample> others = sample_of(*probes, 0);
  ASSERT_TRUE(others);
  EXPECT_GE(others->reclaim[static_cast<std::size_t>(ReclaimKind::memcg)].bytes, booked);
}

TEST_F(ReclaimProbes, TheFirstPagesOfAFileThatAreTakenAreAHint) {
  const auto probes = KernelProbes::open();
  ProbedFile file(*probes, path_);
  read_under_the_limit();
  pollfd wait{.fd = probes->hint_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&wait, 1, 10'000), 1);
  std::vector<Hint> hints;
  probes->consume_hints([&](const Hint& hint) { hints.push_back(hint); });
  const auto reclaimed = std::ranges::find(hints, Hint::Kind::reclaimed, &Hint::kind);
  ASSERT_NE(reclaimed, hints.end());
  EXPECT_EQ(reclaimed->file, file.tracking().counters);
  EXPECT_EQ(reclaimed->cause, RemovalCause::memcg_limit);
  EXPECT_EQ(reclaimed->cgroup, cgroup_->id());
  EXPECT_GT(reclaimed->bytes, 0u);
  EXPECT_STREQ(reclaimed->command.data(), "integration_pro");
}

TEST_F(ReclaimProbes, HintsThatFindNoRoomAreCountedAndNoTotalSuffers) {
  const auto probes = KernelProbes::open(
      {.use_bpf = true, .programs = {.long_reclaim = Nanoseconds(0), .hint_ring_bytes = 4096}});
  read_under_the_limit();
  std::uint64_t told = 0;
  probes->consume_hints([&](const Hint& hint) { told += hint.kind == Hint::Kind::stall ? 1 : 0; });
  const std::uint64_t lost = probes->sample_machine().hints_lost;
  EXPECT_GT(told, 0u);
  EXPECT_GT(lost, 0u);
  std::uint64_t episodes = 0;
  for (const CgroupSample& sample : probes->sample_cgroups()) {
    for (const ReclaimSample& kind : sample.reclaim) episodes += kind.episodes;
  }
  EXPECT_EQ(told + lost, episodes);
}

TEST_F(ReclaimProbes, AKillIsCountedAndNamesItsVictim) {
  const auto probes = KernelProbes::open();
  const int status = cgroup_->run([] {
    void* const memory =
        ::mmap(nullptr, 64 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile char* const bytes = static_cast<char*>(memory);
    for (std::uint64_t at = 0; at < 64 * mib; at += 4096) bytes[at] = 1;
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::optional<CgroupSample> sample = sample_of(*probes, cgroup_->id());
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->oom_kills, 1u);
  EXPECT_GE(probes->sample_machine().oom_kills, 1u);
  std::vector<Hint> hints;
  probes->consume_hints([&](const Hint& hint) { hints.push_back(hint); });
  const auto kill = std::ranges::find(hints, Hint::Kind::oom_kill, &Hint::kind);
  ASSERT_NE(kill, hints.end());
  EXPECT_EQ(kill->cgroup, cgroup_->id());
  EXPECT_GT(kill->process, 0u);
}

TEST(FaultProbe, MajorFaultsOfATrackedFileAreThoseOfTheKernelsOwnAccount) {
  const auto probes = KernelProbes::open(test::with_fault_times);
  if (probes->level() < ProbeLevel::traced_and_faults) {
    GTEST_SKIP() << "requires the probe of major faults: " << probes->report().back().why;
  }
  const test::DiskFolder folder;
  if (!folder.missing().empty()) GTEST_SKIP() << "requires " << folder.missing();
  const std::filesystem::path path = folder / "checkpoint";
  test::write_durably(path, test::random_bytes(file_bytes, 6));
  test::drop_from_page_cache(path);
  ProbedFile file(*probes, path);
  const Nanoseconds start = monotonic_now();
  void* const memory = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(::madvise(memory, file_bytes, MADV_RANDOM), 0);
  rusage before{}, after{};
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
  const volatile char* const bytes = static_cast<const char*>(memory);
  for (std::uint64_t at = 0; at < file_bytes; at += 16 * test::probed_page_bytes) (void)bytes[at];
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &after), 0);
  const Nanoseconds taken = monotonic_now() - start;
  ::munmap(memory, file_bytes);
  const std::optional<FaultTraffic> faults = file.sample().faults;
  ASSERT_TRUE(faults);
  EXPECT_EQ(faults->major_faults, static_cast<std::uint64_t>(after.ru_majflt - before.ru_majflt));
  EXPECT_EQ(faults->major_faults, file_bytes / (16 * test::probed_page_bytes));
  EXPECT_GT(faults->stall_ns, 0u);
  EXPECT_LT(faults->stall_ns, static_cast<std::uint64_t>(taken.count()));
  std::uint64_t in_buckets = 0;
  const MachineSample machine = probes->sample_machine();
  for (const std::uint64_t count : *machine.fault_durations) in_buckets += count;
  EXPECT_EQ(in_buckets, faults->major_faults);
  EXPECT_EQ(machine.fault_ns, faults->stall_ns);
}

TEST(FaultProbe, AMinorFaultOfATrackedFileLeavesNothingToTheNextMajorOneOfAnother) {
  const auto probes = KernelProbes::open(test::with_fault_times);
  if (probes->level() < ProbeLevel::traced_and_faults) {
    GTEST_SKIP() << "requires the probe of major faults: " << probes->report().back().why;
  }
  const test::DiskFolder folder;
  if (!folder.missing().empty()) GTEST_SKIP() << "requires " << folder.missing();
  for (const char* name : {"tracked", "other"}) {
    test::write_durably(folder / name, test::random_bytes(1 * mib, 6));
    test::drop_from_page_cache(folder / name);
  }
  test::bring_into_page_cache(folder / "tracked");
  ProbedFile file(*probes, folder / "tracked");
  const UniqueFd other(::open((folder / "other").c_str(), O_RDONLY | O_CLOEXEC));
  // A write to a private mapping asks the file for its page, whether that is there or not.
  void* const written = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd(), 0);
  void* const read = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, other.get(), 0);
  ASSERT_TRUE(written != MAP_FAILED && read != MAP_FAILED);
  rusage before{}, after{};
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
  *static_cast<volatile char*>(written) = 1;
  (void)*static_cast<const volatile char*>(read);
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &after), 0);
  ::munmap(written, 4096);
  ::munmap(read, 4096);
  EXPECT_EQ(after.ru_majflt - before.ru_majflt, 1);
  EXPECT_EQ(file.sample().faults->major_faults, 0u);
}

}  // namespace
}  // namespace penstock
