// SPDX-License-Identifier: Apache-2.0
// Frames of a fake GPU in this process: how many calls, what is left behind, and what waits for the program's work.
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "service/client/gpu_mapper.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/unit/client/capture.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t mib = 1u << 20, page_bytes = 32 * mib;

class CudaPages : public ::testing::Test {
 protected:
  CudaPages() : fake(FakeGpu::cuda()), gpu{fake.gpu(), *open_program_streams(GpuVendor::cuda)} {}
  void make_frames(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      MemoryHandle handle{};
      UniqueFd fd;
      ASSERT_TRUE(gpu.driver->create(page_bytes, handle).ok());
      ASSERT_TRUE(gpu.driver->export_fd(handle, fd).ok());
      ASSERT_TRUE(gpu.driver->release(handle).ok());
      frames.push_back(std::move(fd));
    }
  }
  void map(PageMapper& mapper, PageSpan span) {
    for (std::uint32_t page = span.first; page != span.end(); ++page)
      ASSERT_TRUE(mapper.place(page, frames[page].get(), Access::read)) << page;
    ASSERT_TRUE(mapper.finish_run(span, Access::read));
  }

  FakeGpu& fake;
  ProcessGpu gpu;
  std::vector<UniqueFd> frames;
};

TEST_F(CudaPages, ATableOf24GibIsMappedWithOneAccessCallARun) {
  make_frames(768);
  const FakeLive before = fake.live();
  {
    auto mapper = *GpuMapper::create(gpu, 768, page_bytes);
    fake.set_faults("");
    map(*mapper, {0, 768});
    EXPECT_EQ(fake.calls("cuMemSetAccess"), 1u);
    EXPECT_EQ(fake.calls("cuMemMap"), 768u);
    EXPECT_EQ(fake.live().handles, before.handles);
    frames.clear();
    EXPECT_EQ(fake.used_bytes(), 768 * page_bytes);  // The mappings keep it.
  }
  EXPECT_EQ(fake.live().mappings, before.mappings);
  EXPECT_EQ(fake.live().reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(fake.used_bytes(), 0u);
}

TEST_F(CudaPages, ARefusalLeavesNothingBehind) {
  make_frames(2);
  const FakeLive before = fake.live();
  for (const char* fault : {"cuMemImportFromShareableHandle:2@1", "cuMemMap:2@1"}) {
    auto mapper = *GpuMapper::create(gpu, 2, page_bytes);
    fake.set_faults(fault);
    const auto refused = mapper->place(0, frames[0].get(), Access::read);
    ASSERT_FALSE(refused);
    EXPECT_EQ(mapper->refusal(refused.error()).kind, FailureKind::exhausted);
    fake.set_faults("");
    EXPECT_EQ(fake.live().handles, before.handles);
    EXPECT_EQ(fake.live().mappings, before.mappings);
    map(*mapper, {0, 2});
  }
  auto mapper = *GpuMapper::create(gpu, 2, page_bytes);
  fake.set_faults("cuMemSetAccess:801@1");
  ASSERT_TRUE(mapper->place(0, frames[0].get(), Access::read));
  EXPECT_FALSE(mapper->finish_run({0, 1}, Access::read));
  EXPECT_EQ(fake.live().handles, before.handles);
  EXPECT_TRUE(mapper->remove(0));
  EXPECT_EQ(fake.live().mappings, before.mappings);
  fake.set_faults("");
}

TEST_F(CudaPages, AreQuietOnceTheWorkBehindTheirUnpinHasEnded) {
  make_frames(2);
  std::unique_ptr<DriverContext> context;
  ASSERT_TRUE(gpu.driver->open_context(context).ok());
  ASSERT_TRUE(context->enter().ok());
  StreamHandle stream{};
  ASSERT_TRUE(context->make_stream(stream).ok());
  {
    auto mapper = *GpuMapper::create(gpu, 2, page_bytes);
    map(*mapper, {0, 2});
    std::vector<std::byte> landed(mib);
    const DeviceAddress at{reinterpret_cast<std::uintptr_t>(mapper->address())};
    ASSERT_TRUE(context->copy_out(landed.data(), at, landed.size(), stream).ok());
    void* const native = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
    ASSERT_TRUE(mapper->note_work({0, 1}, native));
    EXPECT_FALSE(mapper->quiet(0));
    EXPECT_TRUE(mapper->quiet(1));
    EXPECT_TRUE(eventually([&] { return mapper->quiet(0); }));
    EXPECT_TRUE(mapper->remove(0));
  }
  ASSERT_TRUE(context->destroy_stream(stream).ok());
}

TEST_F(CudaPages, StayWhileAStreamCapturesAndLeaveTheCaptureAlone) {
  make_frames(1);
  std::unique_ptr<DriverContext> context;
  ASSERT_TRUE(gpu.driver->open_context(context).ok());
  ASSERT_TRUE(context->enter().ok());
  StreamHandle stream{};
  ASSERT_TRUE(context->make_stream(stream).ok());
  void* const native = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
  {
    auto mapper = *GpuMapper::create(gpu, 1, page_bytes);
    map(*mapper, {0, 1});
    ASSERT_TRUE(mapper->note_work({0, 1}, native));
    Capture capture(native);
    EXPECT_TRUE(mapper->note_work({0, 1}, native));
    EXPECT_FALSE(mapper->quiet(0));
    EXPECT_FALSE(mapper->settle_thread());
    capture.end();
    EXPECT_FALSE(mapper->quiet(0));
    ASSERT_TRUE(mapper->note_work({0, 1}, native));
    EXPECT_TRUE(eventually([&] { return mapper->quiet(0); }));
  }
  ASSERT_TRUE(context->destroy_stream(stream).ok());
}

// The last of its kind here: what it leaves goes with the process.
TEST_F(CudaPages, AreLeftAsTheyAreWhereNobodyCanWaitForTheirWork) {
  make_frames(2);
  std::unique_ptr<DriverContext> context;
  ASSERT_TRUE(gpu.driver->open_context(context).ok());
  ASSERT_TRUE(context->enter().ok());
  StreamHandle stream{};
  ASSERT_TRUE(context->make_stream(stream).ok());
  const FakeLive before = fake.live();
  auto mapper = *GpuMapper::create(gpu, 2, page_bytes);
  map(*mapper, {0, 2});
  std::vector<std::byte> landed(mib);
  const DeviceAddress at{reinterpret_cast<std::uintptr_t>(mapper->address())};
  ASSERT_TRUE(context->copy_out(landed.data(), at, landed.size(), stream).ok());
  ASSERT_TRUE(mapper->note_work({0, 1}, reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream))));
  EXPECT_EQ(mapper->ending(false), Ending::later);
  EXPECT_EQ(mapper->ending(true), Ending::unknown);
  mapper->note_unknown(0);
  EXPECT_EQ(mapper->ending(false), Ending::unknown);
  mapper.reset();
  EXPECT_EQ(fake.live().mappings, before.mappings + 2);
  EXPECT_EQ(fake.live().handles, before.handles);
  ASSERT_TRUE(context->synchronize(stream).ok());
  ASSERT_TRUE(context->destroy_stream(stream).ok());
}

}  // namespace
}  // namespace penstock
