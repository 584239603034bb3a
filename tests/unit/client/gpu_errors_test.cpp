// SPDX-License-Identifier: Apache-2.0
// The last error of a thread, as HIP keeps it: the program's, not the library's.
#include "dataplane/device/hip/hip_quirks.hpp"
#include "service/client/process_gpus.hpp"
#include "service/client/program_context.hpp"
#include "tests/unit/client/gpu_pages.hpp"

namespace penstock::test {
namespace {

class GpuErrors : public GpuPages {
 protected:
  void SetUp() override {
    GpuPages::SetUp();
    ASSERT_TRUE(gpu_.driver->open_context(context_).ok() && context_->enter().ok());
    ASSERT_EQ(last_error(), 0);
  }
  void refuse(std::string_view call, const char* when) {
    fake_.set_faults(fmt::format("{}{}:{}", is_hip() ? "hip" : "cu", call, when));
  }
  // The program's, and what it has not asked for yet.
  int fail_a_call() {
    if (!is_hip()) return 0;
    constexpr int no_such_device = 99;
    return reinterpret_cast<int (*)(int)>(symbol("hipSetDevice"))(no_such_device);
  }
  bool keeps_last_failure() const {
    const std::string text = version();
    return is_hip() && hip_quirks({.major = text[4] - '0', .minor = text[6] - '0'}).keeps_last_failure;
  }
  std::unique_ptr<DriverContext> context_;
};

TEST_F(GpuErrors, OfTheLibraryAreNotTheProgramsLastOne) {
  ASSERT_TRUE(fault(a_message).outcome);
  EXPECT_EQ(last_error(), 0);
  PageMapper& mapper = table_->mapper();
  refuse("StreamIsCapturing", "906@1");
  EXPECT_TRUE(mapper.note_work({0, 1}, nullptr));
  EXPECT_EQ(last_error(), 0) << "some stream captures";
  refuse("EventRecord", "400@1");
  EXPECT_FALSE(mapper.note_work({0, 1}, nullptr));
  EXPECT_EQ(last_error(), 0) << "a refused mark";
  fake_.set_faults("");
  ASSERT_TRUE(mapper.note_work({0, 1}, nullptr));
  refuse("EventQuery", "999@1+");
  EXPECT_FALSE(mapper.quiet(0));
  EXPECT_EQ(last_error(), 0) << "a refused query";
  fake_.set_faults(is_hip() ? "hipDeviceSynchronize:900@1" : "cuCtxSynchronize:900@1");
  EXPECT_FALSE(mapper.settle_thread());
  EXPECT_EQ(last_error(), 0) << "something captures";
  refuse("StreamSynchronize", "900@1");
  std::vector<std::byte> landed(frame_bytes);
  EXPECT_FALSE(mapper.copy_out(0, landed.size(), landed.data(), nullptr));
  EXPECT_EQ(last_error(), 0) << "a refused copy";
  refuse("MemImportFromShareableHandle", "2@1");
  EXPECT_FALSE(mapper.place(a_message, 0, Access::read));
  EXPECT_EQ(last_error(), 0) << "no room";
}

TEST_F(GpuErrors, OfFindingTheGpusAreNotTheProgramsLastOne) {
  const GpuVendor vendor = is_hip() ? GpuVendor::hip : GpuVendor::cuda;
  refuse("DeviceGetUuid", "999@1+");
  ProcessGpus gpus;
  static_cast<void>(gpus.find(vendor, "no such one"));
  EXPECT_EQ(last_error(), 0);
  refuse("DeviceGetUuid", "999@1+");
  static_cast<void>(enter_program_context(vendor, "no such one"));
  EXPECT_EQ(last_error(), 0);
}

TEST_F(GpuErrors, OfTheProgramStayWhereTheDriverKeepsThem) {
  ASSERT_TRUE(fault(a_message).outcome);
  const int failed = fail_a_call();
  ASSERT_EQ(last_error(), failed);
  EXPECT_TRUE(table_->mapper().note_work({0, 1}, nullptr));
  // Before 7.0 each success of anybody's clears it.
  EXPECT_EQ(last_error(), keeps_last_failure() ? failed : 0);
  clear_last_error();
  fail_a_call();
  refuse("EventRecord", "400@1");
  EXPECT_FALSE(table_->mapper().note_work({1, 1}, nullptr));
  // Ours has taken its place. That something failed is still to be seen.
  EXPECT_TRUE(last_error() != 0 || !keeps_last_failure());
}

}  // namespace
}  // namespace penstock::test
