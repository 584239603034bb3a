// SPDX-License-Identifier: Apache-2.0
// How long a fault took, when it had to wait for a read: the kernel gives it up then, and begins it anew.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "dataplane/base/units.hpp"
#include "tests/integration/probes/probed_file.hpp"
#include "tests/integration/probes/slow_file.hpp"

namespace penstock {
namespace {

using test::ProbedFile;

constexpr std::uint64_t file_bytes = 1 * mib, faults = 8, step = file_bytes / faults;

struct Taken {
  Nanoseconds time{};
  long major_faults = 0;
};

Taken touch(int fd, int protection, int flags) {
  void* const memory = ::mmap(nullptr, file_bytes, protection, flags, fd, 0);
  EXPECT_NE(memory, MAP_FAILED);
  EXPECT_EQ(::madvise(memory, file_bytes, MADV_RANDOM), 0);
  rusage before{}, after{};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
  const Nanoseconds start = monotonic_now();
  volatile char* const bytes = static_cast<char*>(memory);
  for (std::uint64_t at = 0; at < file_bytes; at += step) {
    if ((protection & PROT_WRITE) != 0) {
      bytes[at] = 1;
    } else {
      (void)bytes[at];
    }
  }
  const Nanoseconds time = monotonic_now() - start;
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &after), 0);
  ::munmap(memory, file_bytes);
  return {time, after.ru_majflt - before.ru_majflt};
}

// A read that is tried again finds its page without asking the file; a write to a private mapping asks it once more.
TEST(FaultProbe, AFaultThatWaitsForItsReadIsOneOfTheWholeTime) {
  const auto probes = KernelProbes::open(test::with_fault_times);
  if (probes->level() < ProbeLevel::traced_and_faults) {
    GTEST_SKIP() << "requires the probe of major faults: " << probes->report().back().why;
  }
  for (const auto& [protection, flags] :
       {std::pair(PROT_READ, MAP_SHARED), std::pair(PROT_READ | PROT_WRITE, MAP_PRIVATE)}) {
    std::string missing;
    const auto slow = test::SlowFile::make(file_bytes, std::chrono::milliseconds(5), missing);
    if (!slow) GTEST_SKIP() << "requires " << missing;
    ProbedFile file(*probes, slow->path());
    ASSERT_EQ(file.tracking().why, "");
    const Taken taken = touch(file.fd(), protection, flags);
    EXPECT_EQ(slow->reads(), faults);
    EXPECT_EQ(taken.major_faults, static_cast<long>(faults));
    const std::optional<FaultTraffic> traffic = file.sample().faults;
    ASSERT_TRUE(traffic);
    EXPECT_EQ(traffic->major_faults, faults);
    // The server had each read for a part of the time that its fault took.
    EXPECT_GT(Nanoseconds(traffic->stall_ns), slow->waited());
    EXPECT_LT(Nanoseconds(traffic->stall_ns), taken.time);
  }
}

}  // namespace
}  // namespace penstock
