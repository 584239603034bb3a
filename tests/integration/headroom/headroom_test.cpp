// SPDX-License-Identifier: Apache-2.0
// Frames against a real limit: the kernel kills whoever populates memory past it, so that a process which is alive
// afterwards has passed.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf/cgroup_headroom.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "tests/integration/headroom/limited_cgroup.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fixed_headroom.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

// Exit codes of the limited process.
enum Step : int {
  passed = 0,
  cannot_read,
  wrong_limit,
  not_full,
  refused_early,
  never_refused,
  refused_otherwise
};

// A hole is enough: reading it fills the page cache like any other file.
UniqueFd sparse_file(const std::filesystem::path& path, std::uint64_t bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

bool read_through_the_cache(int fd) {
  std::vector<std::byte> buffer(1 * mib);
  ssize_t got = 0;
  do {
    got = ::read(fd, buffer.data(), buffer.size());
  } while (got > 0);
  return got == 0;
}

HostFrameOptions frames_of(HostPages pages) {
  return {.capacity_bytes = 1 * gib, .ready_pool_frames = 2, .pages = pages};
}

// Creates frames until one is refused. The number that was made goes to `made`.
CreateResult make_until_refused(FrameOwner& owner, std::uint64_t& made) {
  for (made = 0; made < 128; ++made) {
    const CreateDone done = create_and_wait(owner);
    if (done.result != CreateResult::created) return done.result;
  }
  return CreateResult::created;
}

int fill_a_cgroup_of_256_mib(int file, HostPages pages) {
  if (!read_through_the_cache(file)) return cannot_read;
  auto headroom = CgroupHeadroom::open();
  if (!headroom || (*headroom)->limit_bytes() != 256 * mib) return wrong_limit;
  // Usage stands at the limit, and nearly all of it is cache.
  if ((*headroom)->headroom_bytes() < 200 * mib) return not_full;
  Result<HostDevice> device = HostDevice::open(frames_of(pages), **headroom);
  if (!device) return refused_early;
  std::uint64_t made = 0;
  const CreateResult last = make_until_refused(device->owner(), made);
  if (made * 8 * mib < 64 * mib) return refused_early;
  if (last == CreateResult::created) return never_refused;
  return last == CreateResult::no_headroom ? passed : refused_otherwise;
}

class CaseC03 : public testing::TestWithParam<HostPages> {};

TEST_P(CaseC03, FramesFitWhereTheCacheWasAndStopBeforeTheLimit) {
  std::string why;
  const auto cgroup = test::LimitedCgroup::make(256 * mib, why);
  if (!cgroup) GTEST_SKIP() << why;
  const test::TemporaryFolder folder;
  const UniqueFd file = sparse_file(folder / "checkpoint", 1 * gib);
  const int status = cgroup->run([&] { return fill_a_cgroup_of_256_mib(file.get(), GetParam()); });
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), passed);
  EXPECT_EQ(cgroup->kills(), 0u);
  // Of v1, which alone has this file.
  const std::optional<std::uint64_t> peak = cgroup->read_number("memory.max_usage_in_bytes");
  EXPECT_GE(peak.value_or(UINT64_MAX), 250 * mib);
}

INSTANTIATE_TEST_SUITE_P(Pages, CaseC03, testing::Values(HostPages::huge, HostPages::small),
                         [](const auto& pages) { return pages.param == HostPages::huge ? "Huge" : "Small"; });

// Where the cgroup files can't be read the headroom is a guess. Huge pages make a wrong guess an answer.
TEST(HostFramesPastTheLimit, AreRefusedByTheKernelInsteadOfKilled) {
  std::string why;
  const auto cgroup = test::LimitedCgroup::make(64 * mib, why);
  if (!cgroup) GTEST_SKIP() << why;
  const int status = cgroup->run([] {
    FixedHeadroom wrong(1 * tib);
    Result<HostDevice> device = HostDevice::open(frames_of(HostPages::huge), wrong);
    if (!device) return static_cast<int>(refused_early);
    std::uint64_t made = 0;
    const CreateResult last = make_until_refused(device->owner(), made);
    if (made < 4) return static_cast<int>(refused_early);
    return static_cast<int>(last == CreateResult::no_headroom ? passed : refused_otherwise);
  });
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), passed);
  EXPECT_EQ(cgroup->kills(), 0u);
}

}  // namespace
}  // namespace penstock
