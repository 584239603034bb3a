// SPDX-License-Identifier: Apache-2.0
// Copies of tables on fake GPUs without virtual memory management: which GPU, whose context, one copy of each page, and
// nothing left behind.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "dataplane/device/cuda/cuda_abi.h"
#include "service/client/table_copy.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/unit/client/capture.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t page_bytes = 1u << 16;
constexpr TableCopy::Size size{
    .bytes = 8 * page_bytes, .page_bytes = page_bytes, .pages = 8, .run_bytes = page_bytes};

class Copies : public testing::Test {
 protected:
  Copies() : fake_(FakeGpu::cuda()), gpus_(fake_.open().gpus), content_(size.bytes) {
    for (std::size_t at = 0; at < content_.size(); ++at) content_[at] = static_cast<std::byte>(at * 131 >> 4);
    fake_.set_faults("");
  }
  // A context of the GPU for this thread, as a framework makes it.
  std::unique_ptr<DriverContext> use(std::size_t gpu) const {
    std::unique_ptr<DriverContext> context;
    EXPECT_TRUE(gpus_.at(gpu)->open_context(context).ok() && context->enter().ok());
    return context;
  }
  std::string id(std::size_t gpu) const { return gpus_.at(gpu)->description().identity.id; }
  PageSource source() {
    return {.address = content_.data(),
            .pin = [&](PageSpan) -> Outcome<void> { return ++pins_, Outcome<void>(); },
            .unpin = [&](PageSpan) { --pins_; }};
  }
  std::vector<std::byte> seen(const TableCopy& copy) const {
    std::vector<std::byte> bytes(size.bytes);
    EXPECT_TRUE(copy.copy_out(0, bytes.size(), bytes.data(), nullptr));
    return bytes;
  }
  static void forget_context() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto set = reinterpret_cast<CudaContextSetCurrent>(::dlsym(library, "cuCtxSetCurrent"));
    EXPECT_EQ(set(nullptr), cuda_success);
  }

  FakeGpu& fake_;
  const std::vector<std::shared_ptr<GpuDriver>> gpus_;
  std::vector<std::byte> content_;
  std::atomic<int> pins_ = 0;
};

TEST_F(Copies, GoToTheGpuWhoseContextIsCurrent) {
  ProcessGpus gpus;
  const auto second = use(1);
  for (const GpuName& name : {GpuName{GpuVendor::cuda, ""}, GpuName{GpuVendor::cuda, id(1)}}) {
    const auto found = gpus.find_plain(name);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->gpu.driver->description().identity.id, id(1));
  }
  const auto first = gpus.find_plain({GpuVendor::cuda, id(0)});
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().kind, FailureKind::unsupported);
  EXPECT_NE(first.error().message.find("no context of " + id(0)), std::string::npos);
  const auto hidden = gpus.find_plain({GpuVendor::cuda, "cuda-12345678"});
  ASSERT_FALSE(hidden);
  EXPECT_NE(hidden.error().message.find("does not see"), std::string::npos);
  forget_context();
  EXPECT_EQ(gpus.find_plain({GpuVendor::cuda, ""}).error().kind, FailureKind::unsupported);
}

TEST_F(Copies, NameGpusByKindOrId) {
  EXPECT_EQ(gpu_name("cuda")->id, "");
  EXPECT_EQ(gpu_name("hip-0123abcd")->id, "hip-0123abcd");
  EXPECT_EQ(gpu_name("hip-0123abcd")->vendor, GpuVendor::hip);
  for (const char* const other : {"", "host", "cud", "cuda0", "mps"}) EXPECT_FALSE(gpu_name(other)) << other;
}

TEST_F(Copies, AreFilledAndFreedByThreadsWithoutAContext) {
  ProcessGpus gpus;
  const auto context = use(0);
  const std::uint64_t before = fake_.used_bytes();
  auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  EXPECT_GT(fake_.used_bytes(), before);
  std::thread([&] { EXPECT_TRUE(copy->fill({2, 3}, source(), never)); }).join();
  EXPECT_TRUE(copy->ready({2, 3}));
  EXPECT_FALSE(copy->ready({1, 1}) || copy->ready({5, 1}));
  EXPECT_TRUE(copy->fill({0, 8}, source(), never));
  EXPECT_EQ(seen(*copy), content_);
  std::thread([&] { copy.reset(); }).join();
  EXPECT_EQ(fake_.used_bytes(), before);
  EXPECT_EQ(pins_, 0);
}

TEST_F(Copies, CopyEachPageOnceHoweverManyThreadsAsk) {
  ProcessGpus gpus;
  const auto context = use(0);
  const auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_TRUE(copy->fill({0, size.pages}, source(), never)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_.calls("cuMemcpyHtoDAsync"), size.pages);
  EXPECT_EQ(seen(*copy), content_);
}

TEST_F(Copies, KeepWhatWasCopiedBeforeAFailureOfTheSource) {
  ProcessGpus gpus;
  const auto context = use(0);
  const auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  PageSource failing = source();
  failing.pin = [](PageSpan run) -> Outcome<void> {
    if (run.first == 3) return fail(FailureKind::offloaded, "no room");
    return {};
  };
  failing.unpin = [](PageSpan) {};
  const auto filled = copy->fill({0, size.pages}, failing, never);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().kind, FailureKind::offloaded);
  EXPECT_TRUE(copy->ready({0, 3}));
  EXPECT_FALSE(copy->ready({3, 1}));
  EXPECT_TRUE(copy->fill({0, size.pages}, source(), never));
}

TEST_F(Copies, TakeFewerPagesAtOnceWhereTheHostHasNoRoomForMore) {
  ProcessGpus gpus;
  const auto context = use(0);
  TableCopy::Size long_runs = size;
  long_runs.run_bytes = size.bytes;
  const auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), long_runs);
  PageSource narrow = source();
  narrow.pin = [&](PageSpan run) -> Outcome<void> {
    if (run.count > 1) return fail(FailureKind::never_fits, "room for one page");
    return ++pins_, Outcome<void>();
  };
  EXPECT_TRUE(copy->fill({0, size.pages}, narrow, never));
  EXPECT_EQ(seen(*copy), content_);
  EXPECT_EQ(pins_, 0);
}

TEST_F(Copies, AWaiterHasADeadline) {
  ProcessGpus gpus;
  const auto context = use(0);
  const auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  PageSource nested = source();
  nested.pin = [&](PageSpan) -> Outcome<void> {
    std::thread([&] {
      const auto late = copy->fill({7, 1}, source(), monotonic_now());
      EXPECT_TRUE(!late && late.error().kind == FailureKind::deadline);
    }).join();
    return ++pins_, Outcome<void>();
  };
  EXPECT_TRUE(copy->fill({0, 1}, nested, never));
}

TEST_F(Copies, SpoilNoCapture) {
  ProcessGpus gpus;
  const auto context = use(0);
  StreamHandle stream{};
  ASSERT_TRUE(context->make_stream(stream).ok());
  void* const native = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
  const auto gpu = *gpus.find_plain({GpuVendor::cuda, ""});
  Capture capture(native);
  const auto copy = *TableCopy::create(gpu, size);
  EXPECT_TRUE(copy->fill({0, size.pages}, source(), never));
  std::vector<std::byte> bytes(page_bytes);
  EXPECT_EQ(copy->copy_out(0, page_bytes, bytes.data(), native).error().code, Errc::busy);
  capture.end();
  EXPECT_EQ(seen(*copy), content_);
  EXPECT_TRUE(context->destroy_stream(stream).ok());
}

TEST_F(Copies, AreNotOverWhileWorkRunsThatAnUnpinToldOfOrACaptureLasts) {
  ProcessGpus gpus;
  const auto context = use(0);
  StreamHandle stream{};
  ASSERT_TRUE(context->make_stream(stream).ok());
  void* const native = reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream));
  const auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  EXPECT_EQ(copy->ending(), Ending::now);
  void* host = nullptr;
  ASSERT_TRUE(context->allocate_host(size.bytes, host).ok());
  ASSERT_TRUE(context
                  ->copy_out(host, DeviceAddress{reinterpret_cast<std::uintptr_t>(copy->address())},
                             size.bytes, stream)
                  .ok());
  copy->note_work(native);
  std::thread([&] {
    EXPECT_NE(copy->ending(), Ending::unknown);
    EXPECT_TRUE(eventually([&] { return copy->ending() == Ending::now; }));
  }).join();
  Capture capture(native);
  copy->note_work(native);
  EXPECT_EQ(copy->ending(), Ending::unknown);
  // Whoever has another copy there knows as much.
  const auto second = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  EXPECT_EQ(second->ending(), Ending::unknown);
  capture.end();
  copy->forget_work();
  EXPECT_EQ(copy->ending(), Ending::now);
  ASSERT_TRUE(context->free_host(host).ok());
  EXPECT_TRUE(context->destroy_stream(stream).ok());
}

TEST_F(Copies, ThatFindNoRoomSaySoWithTheBytes) {
  ProcessGpus gpus;
  const auto context = use(0);
  const auto made = TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}),
                                      {.bytes = 1ull << 40, .page_bytes = 1u << 25, .pages = 1u << 15});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, FailureKind::exhausted);
  EXPECT_NE(made.error().message.find("1.0 TiB"), std::string::npos) << made.error().message;
}

TEST_F(Copies, CountPinsAndFindAStrayOne) {
  ProcessGpus gpus;
  const auto context = use(0);
  const auto copy = *TableCopy::create(*gpus.find_plain({GpuVendor::cuda, ""}), size);
  ASSERT_TRUE(copy->fill({0, 2}, source(), never));
  copy->pin({0, 2});
  copy->pin({1, 1});
  EXPECT_TRUE(copy->pinned({0, 2}));
  EXPECT_TRUE(copy->unpin({0, 2}));
  EXPECT_FALSE(copy->pinned({0, 1}));
  EXPECT_TRUE(copy->unpin({1, 1}));
  EXPECT_FALSE(copy->unpin({1, 1}));
}

}  // namespace
}  // namespace penstock
