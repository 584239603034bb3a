// SPDX-License-Identifier: Apache-2.0
// What unpins tell of the program's work: of several streams, contexts and GPUs, of captures, and of threads without a
// context. The work is a kernel that runs until it is let go.
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "dataplane/device/cuda/cuda_abi.h"
#include "service/client/gpu_mapper.hpp"
#include "tests/fakes/documented_errors.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/unit/client/capture.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t page_bytes = 2u << 20;
constexpr std::uint32_t pages = 3;

template <class Function>
Function driver_call(const char* symbol) {
  return reinterpret_cast<Function>(::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), symbol));
}
void make_current(CudaContext context) {
  ASSERT_EQ(driver_call<CudaContextSetCurrent>("cuCtxSetCurrent")(context), cuda_success);
}
CudaContext current() {
  CudaContext context = nullptr;
  EXPECT_EQ(driver_call<CudaContextGetCurrent>("cuCtxGetCurrent")(&context), cuda_success);
  return context;
}

// A context of the program's own, current in this thread from the start.
class OwnContext {
 public:
  explicit OwnContext(int ordinal = 0) {
    using Create = CudaResult (*)(CudaContext*, unsigned, CudaDevice);
    EXPECT_EQ(driver_call<Create>("cuCtxCreate_v2")(&context_, 0, ordinal), cuda_success);
  }
  ~OwnContext() { end(); }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;
  CudaContext get() const { return context_; }
  void end() {
    if (context_ == nullptr) return;
    EXPECT_EQ(driver_call<CudaResult (*)(CudaContext)>("cuCtxDestroy_v2")(context_), cuda_success);
    context_ = nullptr;
  }

 private:
  CudaContext context_ = nullptr;
};

CudaStream make_stream(unsigned flags = cuda_stream_non_blocking) {
  CudaStream stream = nullptr;
  EXPECT_EQ(driver_call<CudaStreamCreate>("cuStreamCreate")(&stream, flags), cuda_success);
  return stream;
}

// A kernel that reads a page at its end, in the current context.
class Kernel {
 public:
  Kernel(std::byte* page, CudaStream stream) : stream_(stream), context_(current()) {
    void* flag = nullptr;
    CudaModule module = nullptr;
    CudaFunction hold = nullptr;
    EXPECT_EQ(driver_call<CudaMemHostAlloc>("cuMemHostAlloc")(&flag, 4096, 0), cuda_success);
    EXPECT_EQ(driver_call<CudaModuleLoadData>("cuModuleLoadData")(&module, "image"), cuda_success);
    EXPECT_EQ(driver_call<CudaModuleGetFunction>("cuModuleGetFunction")(&hold, module, "penstock_fake_hold"),
              cuda_success);
    flag_ = static_cast<std::uint32_t*>(flag);
    *flag_ = 0;
    std::uint64_t flag_address = reinterpret_cast<std::uintptr_t>(flag);
    std::uint64_t memory = reinterpret_cast<std::uintptr_t>(page), size = page_bytes;
    std::array<void*, 3> parameters{&flag_address, &memory, &size};
    EXPECT_EQ(driver_call<CudaLaunchKernel>("cuLaunchKernel")(hold, 1, 1, 1, 1, 1, 1, 0, stream,
                                                              parameters.data(), nullptr),
              cuda_success);
  }
  ~Kernel() { let_go(); }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  void let_go() {
    if (flag_ == nullptr) return;
    __atomic_store_n(flag_, 1, __ATOMIC_RELEASE);
    make_current(context_);
    EXPECT_EQ(driver_call<CudaStreamSynchronize>("cuStreamSynchronize")(stream_), cuda_success);
    EXPECT_EQ(driver_call<CudaMemFreeHost>("cuMemFreeHost")(flag_), cuda_success);
    flag_ = nullptr;
  }

 private:
  const CudaStream stream_;
  const CudaContext context_;
  std::uint32_t* flag_ = nullptr;
};

class ProgramsWork : public ::testing::Test {
 protected:
  ProgramsWork() : fake(FakeGpu::cuda()) { use(0); }
  ~ProgramsWork() override { make_current(nullptr); }
  // Three pages of a GPU.
  void use(std::size_t ordinal) {
    mapper.reset();
    gpu = {fake.open().gpus.at(ordinal), *open_program_streams(GpuVendor::cuda)};
    mapper = *GpuMapper::create(gpu, pages, page_bytes);
    for (std::uint32_t page = 0; page != pages; ++page) {
      MemoryHandle handle{};
      UniqueFd fd;
      EXPECT_TRUE(gpu.driver->create(page_bytes, handle).ok() && gpu.driver->export_fd(handle, fd).ok());
      EXPECT_TRUE(gpu.driver->release(handle).ok());
      EXPECT_TRUE(mapper->place(page, fd.get(), Access::read));
    }
    EXPECT_TRUE(mapper->finish_run({0, pages}, Access::read));
  }
  std::byte* at(std::uint32_t page) const { return mapper->address() + page * page_bytes; }
  bool becomes_quiet(std::uint32_t page) const {
    return eventually([&] { return mapper->quiet(page); });
  }
  // Asked in a thread without a context.
  Ending ending_elsewhere() const {
    Ending found{};
    std::thread([&] { found = mapper->ending(false); }).join();
    return found;
  }

  FakeGpu& fake;
  ProcessGpu gpu;
  std::unique_ptr<PageMapper> mapper;
};

// Each context has a default stream: one handle for all.
TEST_F(ProgramsWork, OfOneHandleInTwoContextsHidesNoOther) {
  const OwnContext one, other;
  make_current(one.get());
  Kernel kernel(at(0), nullptr);
  ASSERT_TRUE(mapper->note_work({0, 1}, nullptr));
  make_current(other.get());
  ASSERT_TRUE(mapper->note_work({0, 2}, nullptr));
  EXPECT_TRUE(becomes_quiet(1)) << "that is the other context's work alone";
  EXPECT_FALSE(mapper->quiet(0));
  EXPECT_EQ(current(), other.get());
  kernel.let_go();
  EXPECT_TRUE(becomes_quiet(0));
}

TEST_F(ProgramsWork, OfManyUnpinsLeavesNoMoreMarksThanRun) {
  const OwnContext own;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(mapper->note_work({0, 1}, nullptr));
    ASSERT_EQ(driver_call<CudaStreamSynchronize>("cuStreamSynchronize")(nullptr), cuda_success);
  }
  EXPECT_LE(fake.live().events, 16u);
}

TEST_F(ProgramsWork, OfOtherStreamsIsNeitherHiddenNorHeldByACapture) {
  const OwnContext own;
  const CudaStream captured = make_stream(), running = make_stream();
  Kernel kernel(at(2), running);
  ASSERT_TRUE(mapper->note_work({2, 1}, running));
  Capture capture(captured);
  ASSERT_TRUE(mapper->note_work({0, 1}, captured));
  ASSERT_TRUE(mapper->note_work({2, 1}, captured));
  EXPECT_TRUE(mapper->quiet(1)) << "a page that the capture has nothing to do with";
  EXPECT_EQ(mapper->settle_thread().error().code, Errc::busy);
  const CudaStream idle = make_stream();
  ASSERT_TRUE(mapper->note_work({0, 1}, idle));
  EXPECT_FALSE(mapper->quiet(0)) << "another stream does not end the capture";
  capture.end();
  ASSERT_TRUE(mapper->note_work({1, 1}, captured));
  EXPECT_TRUE(becomes_quiet(0));
  EXPECT_FALSE(mapper->quiet(2)) << "what ran before the capture still does";
  kernel.let_go();
  EXPECT_TRUE(becomes_quiet(2));
}

// An unpin during a capture leaves no mark, and the next one on that stream may be of other pages.
TEST_F(ProgramsWork, OfBeforeACaptureHoldsThePagesThatWereUnpinnedDuringIt) {
  const OwnContext own;
  const CudaStream stream = make_stream();
  Kernel kernel(at(0), stream);
  Capture capture(stream);
  ASSERT_TRUE(mapper->note_work({0, 1}, stream));
  EXPECT_EQ(mapper->ending(false), Ending::unknown);
  capture.end();
  ASSERT_TRUE(mapper->note_work({1, 1}, stream));
  EXPECT_EQ(mapper->ending(false), Ending::later);
  EXPECT_FALSE(mapper->quiet(0)) << "the kernel still reads it";
  EXPECT_TRUE(mapper->quiet(2));
  kernel.let_go();
  EXPECT_TRUE(becomes_quiet(0));
  EXPECT_TRUE(mapper->remove(0));
}

// The null stream can't be asked while a blocking one captures.
TEST_F(ProgramsWork, OfTheNullStreamFromBeforeACaptureHoldsItsPages) {
  const OwnContext own;
  const CudaStream blocking = make_stream(0);
  Kernel kernel(at(0), nullptr);
  Capture capture(blocking);
  ASSERT_TRUE(mapper->note_work({0, 1}, nullptr));
  EXPECT_FALSE(mapper->quiet(0));
  const OwnContext other;
  ASSERT_TRUE(mapper->note_work({1, 1}, nullptr)) << "the other context's null stream";
  make_current(own.get());
  capture.end();
  EXPECT_FALSE(mapper->quiet(0));
  ASSERT_TRUE(mapper->note_work({1, 1}, nullptr));
  EXPECT_FALSE(mapper->quiet(0)) << "the kernel still reads it";
  kernel.let_go();
  EXPECT_TRUE(becomes_quiet(0));
  EXPECT_TRUE(mapper->remove(0));
}

TEST_F(ProgramsWork, OfBeforeACaptureIsToldOfByUnpinsOfOtherTables) {
  const OwnContext own;
  const CudaStream stream = make_stream();
  const std::uint64_t events = fake.live().events;
  Kernel kernel(at(0), stream);
  Capture capture(stream);
  ASSERT_TRUE(mapper->note_work({0, 1}, stream));
  capture.end();
  {
    ProgramWork of_another(gpu.streams, gpu.contexts, 1);
    ASSERT_TRUE(of_another.note({0, 1}, StreamHandle{reinterpret_cast<std::uintptr_t>(stream)}));
    EXPECT_EQ(of_another.ending(), Ending::later);
  }
  EXPECT_FALSE(mapper->quiet(0)) << "the kernel still reads it";
  kernel.let_go();
  EXPECT_TRUE(becomes_quiet(0));
  EXPECT_EQ(fake.live().events, events);
}

TEST_F(ProgramsWork, OfBeforeACaptureEndsWithItsContext) {
  OwnContext own;
  const CudaStream stream = make_stream();
  Capture capture(stream);
  ASSERT_TRUE(mapper->note_work({0, 1}, stream));
  capture.end();
  own.end();
  const OwnContext next;
  EXPECT_FALSE(mapper->quiet(0)) << "nobody has looked";
  make_current(nullptr);
  ASSERT_TRUE(mapper->note_work({1, 1}, nullptr)) << "it can't be entered any more";
  EXPECT_TRUE(mapper->quiet(0));
  make_current(next.get());
}

TEST_F(ProgramsWork, IsAskedForByThreadsWithoutAContext) {
  const OwnContext own;
  Kernel kernel(at(0), nullptr);
  std::thread([&] {
    EXPECT_TRUE(mapper->note_work({0, 1}, nullptr)) << "none is known yet, and none is primary";
  }).join();
  EXPECT_FALSE(mapper->quiet(0));
  EXPECT_EQ(mapper->ending(false), Ending::unknown);
  mapper->forget_work();
  // Once the program has unpinned where it has one, its default stream is meant.
  ASSERT_TRUE(mapper->note_work({1, 1}, nullptr));
  std::thread([&] {
    EXPECT_TRUE(mapper->note_work({0, 1}, nullptr));
    EXPECT_FALSE(mapper->quiet(0));
    EXPECT_EQ(current(), nullptr);
  }).join();
  EXPECT_EQ(ending_elsewhere(), Ending::later);
  kernel.let_go();
  EXPECT_TRUE(eventually([&] { return ending_elsewhere() == Ending::now; }));
}

TEST_F(ProgramsWork, OfAThreadWithoutAContextIsThatOfThePrimaryOne) {
  std::unique_ptr<DriverContext> primary;
  ASSERT_TRUE(gpu.driver->open_context(primary).ok());
  Kernel kernel(at(0), nullptr);
  std::thread([&] { EXPECT_TRUE(mapper->note_work({0, 1}, nullptr)); }).join();
  EXPECT_EQ(ending_elsewhere(), Ending::later);
  kernel.let_go();
  EXPECT_TRUE(becomes_quiet(0));
}

TEST_F(ProgramsWork, IsUnknownWhereTheDriverDoesNotTellOfThePrimaryContext) {
  for (const char* const call : {"cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain"}) {
    for (const int code : fake::errors::context_state) {
      use(0);
      std::unique_ptr<DriverContext> primary;
      ASSERT_TRUE(gpu.driver->open_context(primary).ok());
      make_current(nullptr);
      fake.set_faults(std::string(call) + ":" + std::to_string(code) + "@1");
      EXPECT_TRUE(mapper->note_work({0, 1}, nullptr));
      fake.set_faults("");
      EXPECT_FALSE(mapper->quiet(0)) << call << code;
      mapper->forget_work();
    }
  }
}

TEST_F(ProgramsWork, OnAGpuThatIsNotTheThreadsIsFoundAllTheSame) {
  use(1);
  const OwnContext second(1);
  Kernel kernel(at(0), nullptr);
  ASSERT_TRUE(mapper->note_work({2, 1}, nullptr));
  const OwnContext first(0);
  ASSERT_EQ(current(), first.get());
  ASSERT_TRUE(mapper->note_work({0, 1}, nullptr)) << "the default stream of the table's GPU";
  EXPECT_FALSE(mapper->quiet(0));
  EXPECT_EQ(mapper->ending(false), Ending::later);
  EXPECT_EQ(current(), first.get());
  kernel.let_go();
  make_current(first.get());
  EXPECT_TRUE(becomes_quiet(0));
  EXPECT_TRUE(mapper->settle_thread());
  EXPECT_EQ(current(), first.get());
}

TEST_F(ProgramsWork, EndsWithItsContext) {
  OwnContext own;
  ASSERT_TRUE(mapper->note_work({1, 1}, nullptr));
  // Late, and then never.
  std::vector<std::byte> landed(page_bytes);
  EXPECT_EQ(driver_call<CudaMemHostRegister>("cuMemHostRegister_v2")(landed.data(), landed.size(), 0),
            cuda_success);
  const auto from = reinterpret_cast<std::uintptr_t>(at(0));
  EXPECT_EQ(
      driver_call<CudaMemcpyDtoHAsync>("cuMemcpyDtoHAsync_v2")(landed.data(), from, landed.size(), nullptr),
      cuda_success);
  ASSERT_TRUE(mapper->note_work({0, 1}, nullptr));
  const std::uint64_t before = fake.live().mappings;
  own.end();
  ASSERT_EQ(current(), nullptr);
  EXPECT_TRUE(mapper->quiet(0));
  EXPECT_EQ(mapper->ending(false), Ending::now);
  EXPECT_TRUE(mapper->unmap_all());
  EXPECT_EQ(fake.live().mappings, before - pages);
  // Those that come later are not led there.
  const OwnContext next;
  EXPECT_TRUE(mapper->note_work({0, 1}, nullptr));
  EXPECT_TRUE(becomes_quiet(0));
  EXPECT_EQ(driver_call<CudaMemHostUnregister>("cuMemHostUnregister")(landed.data()), cuda_success);
}

TEST_F(ProgramsWork, EndsWithAResetThatMakesItsEventsUnknown) {
  const OwnContext own;
  for (const char* const code : {"201", "400", "709", "719"}) {
    Kernel kernel(at(0), nullptr);
    ASSERT_TRUE(mapper->note_work({0, 1}, nullptr));
    fake.set_faults(std::string("cuEventQuery:") + code + "@1+");
    EXPECT_TRUE(mapper->quiet(0)) << code;
    fake.set_faults("");
    kernel.let_go();
  }
}

}  // namespace
}  // namespace penstock
