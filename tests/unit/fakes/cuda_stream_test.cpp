// SPDX-License-Identifier: Apache-2.0
// Rules 6 and 7 of tests/fakes/DESIGN.md: when work runs, and what a fault of it does.
#include <array>
#include <cstring>
#include <vector>

#include "dataplane/kernels/kernel_arguments.hpp"
#include "tests/unit/fakes/fake_cuda_fixture.hpp"

namespace penstock::fake {
namespace {

constexpr std::size_t copy_bytes = 4096;

// Host memory that the device reads late.
std::vector<char> registered(char value) {
  std::vector<char> memory(copy_bytes, value);
  EXPECT_EQ(cuMemHostRegister_v2(memory.data(), memory.size(), 0), cuda_success);
  return memory;
}

char first_byte(CudaAddress address) { return *reinterpret_cast<const char*>(address); }

TEST_F(FakeCudaStream, WorkRunsAfterTheCallThatQueuedIt) {
  const CudaAddress address = mapped_frame();
  std::vector<char> source = registered('a');
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(address, source.data(), copy_bytes, stream), cuda_success);
  source[0] = 'b';  // Before the copy has run: a caller that reuses its slot too early.
  EXPECT_EQ(cuStreamQuery(stream), cuda_error_not_ready);
  EXPECT_EQ(cuStreamSynchronize(stream), cuda_success);
  EXPECT_EQ(cuStreamQuery(stream), cuda_success);
  EXPECT_EQ(first_byte(address), 'b');
  EXPECT_EQ(cuMemHostUnregister(source.data()), cuda_success);
  give_back(address);
}

TEST_F(FakeCudaStream, MemoryThatIsNotRegisteredIsTakenAtTheCall) {
  const CudaAddress address = mapped_frame();
  std::vector<char> source(copy_bytes, 'a');
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(address, source.data(), copy_bytes, stream), cuda_success);
  source[0] = 'b';
  EXPECT_EQ(cuStreamSynchronize(stream), cuda_success);
  EXPECT_EQ(first_byte(address), 'a');
  std::array<char, 4> back{};
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(back.data(), address, back.size(), stream), cuda_success);
  EXPECT_EQ(back[3], 'a') << "the copy had to be done when the call returned";
  give_back(address);
}

TEST_F(FakeCudaStream, AnEventOrdersTwoStreams) {
  const CudaAddress address = mapped_frame();
  CudaStream second = nullptr;
  CudaEvent event = nullptr;
  ASSERT_EQ(cuStreamCreate(&second, cuda_stream_non_blocking), cuda_success);
  ASSERT_EQ(cuEventCreate(&event, cuda_event_disable_timing), cuda_success);
  EXPECT_EQ(cuEventQuery(event), cuda_success) << "never recorded";
  for (unsigned char round = 0; round < 20; ++round) {
    // Several pieces on the first stream, so that without the event the second would overtake them.
    for (int i = 0; i < 4; ++i) ASSERT_EQ(cuMemsetD8Async(address, 1, 64, stream), cuda_success);
    ASSERT_EQ(cuEventRecord(event, stream), cuda_success);
    ASSERT_EQ(cuStreamWaitEvent(second, event, 0), cuda_success);
    ASSERT_EQ(cuMemsetD8Async(address, 2, 64, second), cuda_success);
    ASSERT_EQ(cuStreamSynchronize(second), cuda_success);
    EXPECT_EQ(cuEventQuery(event), cuda_success);
    EXPECT_EQ(first_byte(address), 2);
  }
  EXPECT_EQ(cuEventDestroy_v2(event), cuda_success);
  EXPECT_EQ(cuStreamDestroy_v2(second), cuda_success);
  give_back(address);
}

TEST_F(FakeCudaStream, StreamsWithoutAnEventAreOutOfOrder) {
  const CudaAddress address = mapped_frame();
  CudaStream second = nullptr;
  ASSERT_EQ(cuStreamCreate(&second, cuda_stream_non_blocking), cuda_success);
  bool overtaken = false;
  for (int round = 0; round < 200 && !overtaken; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(cuMemsetD8Async(address, 1, 64, stream), cuda_success);
    ASSERT_EQ(cuMemsetD8Async(address, 2, 64, second), cuda_success);
    ASSERT_EQ(cuCtxSynchronize(), cuda_success);
    overtaken = first_byte(address) == 1;
  }
  EXPECT_TRUE(overtaken);
  EXPECT_EQ(cuStreamDestroy_v2(second), cuda_success);
  give_back(address);
}

TEST_F(FakeCudaStream, TheNullStreamWaitsForBlockingStreamsAlone) {
  const CudaAddress address = mapped_frame();
  CudaStream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, 0), cuda_success);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(cuMemsetD8Async(address, 1, 64, blocking), cuda_success);
    ASSERT_EQ(cuMemsetD8Async(address, 2, 64, nullptr), cuda_success);
    ASSERT_EQ(cuCtxSynchronize(), cuda_success);
    EXPECT_EQ(first_byte(address), 2);
  }
  EXPECT_EQ(cuStreamDestroy_v2(blocking), cuda_success);
  give_back(address);
}

TEST_F(FakeCudaStream, AZeroFillGivesHostMemoryBackAndReadsAsZero) {
  const CudaAddress address = mapped_frame();
  ASSERT_EQ(cuMemsetD8Async(address + 1, 0, frame_bytes - 2, stream), cuda_success);
  ASSERT_EQ(cuStreamSynchronize(stream), cuda_success);
  const auto* bytes = reinterpret_cast<const unsigned char*>(address);
  EXPECT_EQ(bytes[0], 0xa5);
  for (std::uint64_t i = 1; i < frame_bytes - 1; ++i) ASSERT_EQ(bytes[i], 0) << i;
  give_back(address);
}

TEST_F(FakeCudaStream, AFaultOfWorkKillsItsContextAlone) {
  penstock_fake_set_faults("copy:700@1");
  const CudaAddress address = mapped_frame();
  ASSERT_EQ(cuMemsetD8Async(address, 1, 64, stream), cuda_success);
  EXPECT_EQ(cuStreamSynchronize(stream), cuda_error_illegal_address);
  EXPECT_EQ(cuMemsetD8Async(address, 1, 64, stream), cuda_error_illegal_address);
  CudaEvent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, 0), cuda_error_illegal_address);
  EXPECT_EQ(static_cast<unsigned char>(first_byte(address)), 0xa5) << "the copy was not done";
  CudaContext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), cuda_success);
  EXPECT_EQ(cuCtxSynchronize(), cuda_success);
  EXPECT_EQ(cuCtxDestroy_v2(other), cuda_success);
  EXPECT_EQ(cuCtxSynchronize(), cuda_error_illegal_address);
  give_back(address);  // Needs no context.
}

TEST_F(FakeCudaStream, ABadAccessMayKillTheContextInsteadOfTheProcess) {
  ::setenv("PENSTOCK_FAKE_STICKY_FAULTS", "1", 1);
  penstock_fake_read_settings();
  const CudaAddress address = mapped_frame(cuda_mem_access_read);
  ASSERT_EQ(cuMemsetD8Async(address, 1, 64, stream), cuda_success);
  EXPECT_EQ(cuStreamSynchronize(stream), cuda_error_illegal_address);
  ::unsetenv("PENSTOCK_FAKE_STICKY_FAULTS");
  penstock_fake_read_settings();
  give_back(address);
}

TEST_F(FakeCudaStream, WorkInACaptureInvalidatesIt) {
  const CudaAddress address = mapped_frame();
  void* graph = nullptr;
  int status = -1;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, 1), cuda_success);
  EXPECT_EQ(cuStreamIsCapturing(stream, &status), cuda_success);
  EXPECT_EQ(status, cuda_capture_active);
  EXPECT_EQ(cuMemsetD8Async(address, 1, 64, stream), cuda_error_stream_capture_unsupported);
  EXPECT_EQ(cuStreamIsCapturing(stream, &status), cuda_success);
  EXPECT_EQ(status, cuda_capture_invalidated);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), cuda_error_stream_capture_invalidated);
  give_back(address);
}

TEST_F(FakeCudaStream, TheNullStreamCantBeAskedWhileABlockingOneCaptures) {
  int status = -1;
  void* graph = nullptr;
  CudaStream blocking = nullptr;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, 2), cuda_success);
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), cuda_success) << "the fixture's stream is none";
  EXPECT_EQ(status, cuda_capture_none);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), cuda_success);
  ASSERT_EQ(cuStreamCreate(&blocking, 0), cuda_success);
  ASSERT_EQ(cuStreamBeginCapture_v2(blocking, 2), cuda_success);
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), cuda_error_stream_capture_implicit);
  EXPECT_EQ(cuStreamIsCapturing(stream, &status), cuda_success);
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), cuda_success) << "asking spoils nothing";
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), cuda_success);
  EXPECT_EQ(cuStreamDestroy_v2(blocking), cuda_success);
}

TEST_F(FakeCudaStream, AnyWaitBesideAGlobalCaptureInvalidatesIt) {
  CudaEvent event = nullptr;
  void* graph = nullptr;
  ASSERT_EQ(cuEventCreate(&event, 0), cuda_success);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, 0), cuda_success);
  EXPECT_EQ(cuEventQuery(event), cuda_error_stream_capture_unsupported);
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), cuda_error_stream_capture_invalidated);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, 2), cuda_success);
  EXPECT_EQ(cuEventQuery(event), cuda_success) << "a relaxed capture does not mind";
  EXPECT_EQ(cuCtxSynchronize(), cuda_error_stream_capture_unsupported) << "but a device's wait it does";
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), cuda_error_stream_capture_invalidated);
}

TEST_F(FakeCudaStream, KernelsRunByNameOnWhatTheirParametersSaid) {
  const CudaAddress address = mapped_frame();
  CudaModule module = nullptr;
  CudaFunction scatter = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, "image"), cuda_success);
  EXPECT_EQ(cuModuleGetFunction(&scatter, module, "no_such_kernel"), cuda_error_not_found);
  ASSERT_EQ(cuModuleGetFunction(&scatter, module, "penstock_scatter"), cuda_success);
  void* host = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&host, 4096, 0), cuda_success);
  auto* piece = static_cast<ScatterPiece*>(host);
  const std::array<float, 2> values{1.5F, -2.0F};
  const auto staged = reinterpret_cast<std::uintptr_t>(host) + 1024;
  std::memcpy(static_cast<char*>(host) + 1024, values.data(), sizeof values);
  *piece = {.source = staged,
            .destination = address,
            .elements = 2,
            .scale = 2.0F,
            .stored = ElementKind::f32,
            .wanted = ElementKind::f16,
            .zero = 0};
  unsigned long long pieces = reinterpret_cast<std::uintptr_t>(host);
  std::array<void*, 1> parameters{&pieces};
  ASSERT_EQ(cuLaunchKernel(scatter, 1, 1, 1, kernel_threads, 1, 1, 0, stream, parameters.data(), nullptr),
            cuda_success);
  pieces = 0;  // Parameters are taken at the call.
  ASSERT_EQ(cuStreamSynchronize(stream), cuda_success);
  std::array<std::uint16_t, 2> halves{};
  std::memcpy(halves.data(), reinterpret_cast<const void*>(address), sizeof halves);
  EXPECT_EQ(halves[0], 0x4200);  // 3.0
  EXPECT_EQ(halves[1], 0xc400);  // -4.0
  EXPECT_EQ(cuMemFreeHost(host), cuda_success);
  EXPECT_EQ(cuModuleUnload(module), cuda_success);
  give_back(address);
}

}  // namespace
}  // namespace penstock::fake
