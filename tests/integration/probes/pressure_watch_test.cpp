// SPDX-License-Identifier: Apache-2.0
// Real pressure in a real cgroup: a process that runs into its limit is noticed at once.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/cgroup_files.hpp"
#include "bpf/cgroup_use.hpp"
#include "bpf/pressure_watch.hpp"
#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/integration/headroom/limited_cgroup.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/random_file.hpp"

namespace penstock {
namespace {

UniqueFd root_directory() { return UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

// So little that any reclaim of the whole machine passes it.
constexpr PressureBound little{
    .kind = PressureKind::some, .stall = std::chrono::milliseconds(1), .window = std::chrono::seconds(2)};

// Reads the file again and again under the limit until told to stop.
class Thrasher {
 public:
  Thrasher(const test::LimitedCgroup& cgroup, const std::filesystem::path& path) {
    child_ = ::fork();
    CHECK(child_ >= 0);
    if (child_ != 0) return;
    (void)cgroup.enter();
    while (test::read_in_pieces(path)) {
    }
    ::_exit(1);
  }
  ~Thrasher() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Thrasher(const Thrasher&) = delete;
  Thrasher& operator=(const Thrasher&) = delete;
  pid_t process() const { return child_; }

 private:
  pid_t child_;
};

class PressureWatching : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    cgroup_ = test::LimitedCgroup::make(12 * mib, why);
    if (!cgroup_) GTEST_SKIP() << why;
    if (!folder_.missing().empty()) GTEST_SKIP() << "requires " << folder_.missing();
    path_ = folder_ / "checkpoint";
    test::write_durably(path_, test::random_bytes(32 * mib, 5));
    test::drop_from_page_cache(path_);
  }

  test::DiskFolder folder_;
  std::filesystem::path path_;
  std::unique_ptr<test::LimitedCgroup> cgroup_;
};

TEST_F(PressureWatching, HintsAndPressureReachTheCallbacksAndStopWithTheWatch) {
  const auto probes = KernelProbes::open();
  if (probes->hint_fd() < 0) GTEST_SKIP() << "requires BPF: " << probes->report().front().why;
  const UniqueFd root = root_directory();
  Result<PressureEdge> edge = PressureEdge::open(root.get(), "proc/pressure/memory", little);
  if (!edge) GTEST_SKIP() << "requires /proc/pressure/memory";
  if (!edge->armed()) GTEST_SKIP() << "requires a pressure trigger: " << edge->why();
  const test::ProbedFile file(*probes, path_);
  std::atomic<int> hints = 0, pressures = 0;
  std::vector<PressureEdge> edges;
  edges.push_back(*std::move(edge));
  auto watch = PressureWatch::start(
      *probes, std::move(edges),
      {.hint = [&](const Hint&) { ++hints; }, .pressure = [&](std::size_t) { ++pressures; }});
  ASSERT_TRUE(watch);
  {
    const Thrasher thrasher(*cgroup_, path_);
    EXPECT_TRUE(eventually([&] { return hints > 0; }));
    EXPECT_TRUE(eventually([&] { return pressures > 0; }));
  }
  watch->reset();
}

TEST_F(PressureWatching, WithoutATriggerItLooksAtTheEndOfEachWindow) {
  const auto probes = KernelProbes::open({.use_bpf = false, .programs = {}});
  const test::TemporaryFolder folder;
  const UniqueFd directory(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto write_total = [&](int microseconds) {
    // In place, as the kernel's.
    const UniqueFd out(::open((folder / "memory").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0444));
    const std::string text =
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(microseconds) + "\n";
    ASSERT_EQ(::write(out.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  write_total(1'000'000);
  // Root may write to any file, and a plain file takes any trigger. Making the cgroup took root.
  ASSERT_EQ(::fchmod(directory.get(), 0755), 0);
  ASSERT_EQ(::seteuid(65534), 0);
  Result<PressureEdge> edge = PressureEdge::open(directory.get(), "memory",
                                                 {.kind = PressureKind::some,
                                                  .stall = std::chrono::milliseconds(1),
                                                  .window = std::chrono::milliseconds(20)});
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(edge);
  ASSERT_FALSE(edge->armed());
  std::atomic<int> pressures = 0;
  std::vector<PressureEdge> edges;
  edges.push_back(*std::move(edge));
  const auto watch = PressureWatch::start(
      *probes, std::move(edges), {.hint = [](const Hint&) {}, .pressure = [&](std::size_t) { ++pressures; }});
  ASSERT_TRUE(watch);
  write_total(2'000'000);
  EXPECT_TRUE(eventually([&] { return pressures == 1; }));
}

TEST_F(PressureWatching, AClientsCgroupHasTheNumberThatItsReclaimIsBookedTo) {
  const auto probes = KernelProbes::open();
  if (probes->hint_fd() < 0) GTEST_SKIP() << "requires BPF: " << probes->report().front().why;
  const UniqueFd root = root_directory();
  const Thrasher thrasher(*cgroup_, path_);
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, thrasher.process(), 0)));
  ASSERT_TRUE(pidfd);
  Warnings warnings;
  std::uint64_t id = 0;
  EXPECT_TRUE(eventually([&] {
    Result<CgroupFiles> files = CgroupFiles::open(root.get(), {thrasher.process(), pidfd.get()}, warnings);
    id = files ? files->id() : 0;
    return id == cgroup_->id();
  }));
  Result<CgroupFiles> files = CgroupFiles::open(root.get(), {thrasher.process(), pidfd.get()}, warnings);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->read(warnings).max, 12 * mib);
  EXPECT_TRUE(eventually([&] {
    const std::vector<CgroupSample> samples = probes->sample_cgroups();
    return std::ranges::any_of(samples, [&](const CgroupSample& sample) {
      return sample.id == id && sample.reclaim[static_cast<std::size_t>(ReclaimKind::memcg)].episodes > 0;
    });
  }));
  CgroupUseFiles use(files->version());
  EXPECT_TRUE(eventually([&] { return use.read_use(files->directory()).page_cache.value_or(0) > 4 * mib; }));
  EXPECT_GT(use.read_events(files->directory()).limit_hits.value_or(0), 0u);
  EXPECT_LT(use.read_use(files->directory()).page_cache.value_or(UINT64_MAX), 12 * mib);
  // The cgroup is as full as its limit allows, and yet all of that is to be had.
  EXPECT_GT(files->read(warnings).headroom.value_or(0), 8 * mib);
}

}  // namespace
}  // namespace penstock
