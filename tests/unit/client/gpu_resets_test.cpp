// SPDX-License-Identifier: Apache-2.0
// A program that ends its context of a fake GPU, or resets the device, while its tables are open: they can be used, unmapped
// and ended all the same.
#include "service/client/program_context.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/client/gpu_pages.hpp"

namespace penstock::test {
namespace {

class GpuResets : public GpuPages {
 protected:
  void SetUp() override {
    GpuPages::SetUp();
    begin();
    ASSERT_TRUE(fault(a_message).outcome);
  }
  // As a framework does: the primary context, current in this thread.
  void begin() {
    ASSERT_TRUE(gpu_.driver->open_context(context_).ok() && context_->enter().ok());
    ASSERT_TRUE(context_->make_stream(stream_).ok());
  }
  void reset() {
    if (is_hip()) {
      ASSERT_EQ(call("hipDeviceReset"), 0);
    } else {
      const auto call = reinterpret_cast<int (*)(int)>(symbol("cuDevicePrimaryCtxReset_v2"));
      ASSERT_EQ(call(0), 0);
    }
  }
  bool unpin(PageSpan span, StreamHandle stream) {
    void* const native = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    return table_->mapper().note_work(span, native) && paging_.unpin(*table_, span);
  }
  void revoke(std::uint32_t page) {
    service_->revoke(table_number, page, 1);
    paging_.serve();
    paging_.run_revokes();
  }
  std::uint64_t mappings() const { return fake_.live().mappings; }

  std::unique_ptr<DriverContext> context_;
  StreamHandle stream_{};
};

TEST_F(GpuResets, PagesThatWereUnpinnedBeforeGo) {
  ASSERT_TRUE(unpin({0, a_message}, stream_));
  reset();
  revoke(0);
  EXPECT_EQ(mappings(), a_message - 1) << "the work on it has died, and its event is unknown";
  EXPECT_EQ(paging_.try_detach(*table_).ending, Ending::now);
  EXPECT_EQ(mappings(), 0u);
}

TEST_F(GpuResets, PagesThatAreUnpinnedAfterwardsGo) {
  ASSERT_TRUE(unpin({0, 1}, stream_));
  reset();
  ASSERT_TRUE(unpin({1, a_message - 1}, StreamHandle{}));
  EXPECT_TRUE(eventually([&] { return paging_.try_detach(*table_).ending == Ending::now; }));
  EXPECT_EQ(mappings(), 0u);
}

TEST_F(GpuResets, AProgramThatBeginsAnewGoesOn) {
  ASSERT_TRUE(unpin({0, a_message}, stream_));
  reset();
  context_.reset();
  begin();
  EXPECT_EQ(paging_.pin_settled(*table_, {0, 2}), PinOutcome::done) << "mappings belong to no context";
  std::vector<std::byte> landed(frame_bytes);
  EXPECT_TRUE(table_->mapper().copy_out(0, landed.size(), landed.data(), nullptr));
  ASSERT_TRUE(unpin({0, 2}, stream_));
  EXPECT_TRUE(eventually([&] { return table_->mapper().quiet(0); }));
  revoke(0);
  EXPECT_EQ(mappings(), a_message - 1);
}

TEST_F(GpuResets, TheContextThatTheLibraryMakesIsMadeAnew) {
  const GpuVendor vendor = is_hip() ? GpuVendor::hip : GpuVendor::cuda;
  ASSERT_TRUE(unpin({0, a_message}, stream_));
  ASSERT_TRUE(enter_program_context(vendor, ""));
  reset();
  const auto entered = enter_program_context(vendor, "");
  ASSERT_TRUE(entered) << entered.error().message;
  StreamHandle stream{};
  std::unique_ptr<DriverContext> own;
  ASSERT_TRUE(gpu_.driver->adopt_context(own).ok());
  EXPECT_TRUE(own->make_stream(stream).ok() && own->destroy_stream(stream).ok());
}

}  // namespace
}  // namespace penstock::test
