// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/resource_limits.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dataplane/base/unique_fd.hpp"

namespace penstock {
namespace {

TEST(ResourceLimits, SoftIsNeverAboveHard) {
  EXPECT_LE(locked_memory_limit()->soft, locked_memory_limit()->hard);
  EXPECT_LE(open_files_limit()->soft, open_files_limit()->hard);
}

TEST(ResourceLimits, RaisesDescriptorsToTheHardLimit) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(open_files_limit()->soft, 64u);
  EXPECT_EQ(*raise_open_files_limit(), before.rlim_max);
  EXPECT_EQ(open_files_limit()->soft, open_files_limit()->hard);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(ResourceLimits, CountsWhatIsOpenWhateverItsNumber) {
  const std::uint64_t before = open_descriptors();
  if (before == 0) GTEST_SKIP() << "requires Linux 6.2, whose /proc/self/fd has a size";
  const UniqueFd low(::dup(STDERR_FILENO));
  const UniqueFd high(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 60));
  EXPECT_EQ(open_descriptors(), before + 2);
}

}  // namespace
}  // namespace penstock
