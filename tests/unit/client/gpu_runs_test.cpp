// SPDX-License-Identifier: Apache-2.0
// Pages of a fake GPU that come to the library in many messages: a run of them is made accessible by one call, as far as
// the descriptors allow where the driver uses them until then.
#include "tests/unit/client/gpu_pages.hpp"

namespace penstock::test {
namespace {

class GpuRuns : public GpuPages {};

// As many pages as 24 GiB are in pages of 32 MiB.
TEST_F(GpuRuns, SixMessagesOfOneRunAreMadeAccessibleByOneCall) {
  const std::ptrdiff_t descriptors = open_descriptors();
  fake_.set_faults("");
  const Paging::Answer answer = fault();
  ASSERT_TRUE(answer.outcome) << answer.outcome.error().message;
  EXPECT_EQ(access_calls(), 1u);
  EXPECT_EQ(mapped_pages(), pages);
  EXPECT_EQ(open_descriptors(), descriptors) << "none is kept";
  EXPECT_EQ(fake_.live().handles, 0u);
}

// A service grants what is ready: a page that another session is just given may come a message later.
TEST_F(GpuRuns, PagesInAnyOrderAreMadeAccessibleByOneCallIfTheyLieSideBySide) {
  std::swap(order_[a_message - 1], order_[a_message]);
  std::swap(order_[3], order_[4 * a_message]);
  std::reverse(order_.end() - a_message, order_.end());
  fake_.set_faults("");
  const Paging::Answer answer = fault();
  ASSERT_TRUE(answer.outcome) << answer.outcome.error().message;
  EXPECT_EQ(access_calls(), 1u);
  EXPECT_EQ(mapped_pages(), pages);
}

TEST_F(GpuRuns, AreCutWhereDescriptorsBecomeShort) {
  const ResourceLimit before = *open_files_limit();
  // This driver's pages take one each in this process, and the service that is played here two for those it sends.
  const rlimit low{static_cast<rlim_t>(open_descriptors()) + pages + 3 * a_message, before.hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  fake_.set_faults("");
  const Paging::Answer answer = fault();
  const rlimit high{before.soft, before.hard};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &high), 0);
  ASSERT_TRUE(answer.outcome) << answer.outcome.error().message;
  EXPECT_EQ(mapped_pages(), pages);
  if (is_hip()) {
    EXPECT_GT(access_calls(), 1u);
    EXPECT_LE(access_calls(), 3u);
  } else {
    EXPECT_EQ(access_calls(), 1u);
  }
}

TEST_F(GpuRuns, APageThatIsRefusedWhileDescriptorsAreKeptIsTriedWithoutThem) {
  if (!is_hip()) GTEST_SKIP() << "requires a driver that uses descriptors until access is set: HIP";
  fake_.set_faults("hipMemImportFromShareableHandle:2@200");
  const Paging::Answer answer = fault();
  EXPECT_TRUE(answer.outcome);
  EXPECT_EQ(access_calls(), 2u);
  EXPECT_EQ(mapped_pages(), pages);
}

TEST_F(GpuRuns, AreUnmappedByOneCallWhereTheDriverTakesSeveralMappings) {
  ASSERT_TRUE(fault().outcome);
  fake_.set_faults("");  // Counts anew.
  paging_.detach(*table_);
  table_.reset();
  EXPECT_EQ(fake_.calls(is_hip() ? "hipMemUnmap" : "cuMemUnmap"), version() == "hip-6.2" ? pages : 1u);
  EXPECT_EQ(fake_.live().mappings, 0u);
}

}  // namespace
}  // namespace penstock::test
