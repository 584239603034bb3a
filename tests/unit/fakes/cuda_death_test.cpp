// SPDX-License-Identifier: Apache-2.0
// Rules 4 and 5 of tests/fakes/DESIGN.md: what ends the process.
#include <array>

#include "dataplane/kernels/kernel_arguments.hpp"
#include "tests/unit/fakes/fake_cuda_fixture.hpp"

namespace penstock::fake {
namespace {

using FakeCudaDeathTest = FakeCuda;
using FakeCudaStreamDeathTest = FakeCudaStream;

volatile unsigned char* bytes(CudaAddress address) {
  return reinterpret_cast<volatile unsigned char*>(address);
}

TEST_F(FakeCudaDeathTest, AnUnknownHandleAborts) {
  EXPECT_DEATH(cuMemRelease(1), "handle 0x1 is unknown");
  const CudaMemHandle handle = create();
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
  EXPECT_DEATH(cuMemRelease(handle), "unknown or was released");
  EXPECT_DEATH(cuMemMap(0, frame_bytes, 0, handle, 0), "cuMemMap: the handle");
  int fd = -1;
  EXPECT_DEATH(cuMemExportToShareableHandle(&fd, handle, cuda_mem_handle_posix_fd, 0), "export: the handle");
}

TEST_F(FakeCudaDeathTest, ReadingBeforeAccessIsSetFaults) {
  const CudaAddress address = mapped_frame(cuda_mem_access_none);
  EXPECT_EXIT(static_cast<void>(bytes(address)[0]), died_of_a_fault, "");
  give_back(address);
}

TEST_F(FakeCudaDeathTest, WritingThroughAReadOnlyMappingFaults) {
  const CudaAddress address = mapped_frame(cuda_mem_access_read);
  EXPECT_EQ(bytes(address)[0], 0xa5);
  EXPECT_EXIT(bytes(address)[0] = 1, died_of_a_fault, "");
  give_back(address);
}

TEST_F(FakeCudaDeathTest, TouchingAfterUnmapFaults) {
  const CudaAddress address = mapped_frame();
  EXPECT_EQ(cuMemUnmap(address, frame_bytes), cuda_success);
  EXPECT_EXIT(static_cast<void>(bytes(address)[0]), died_of_a_fault, "");
  EXPECT_EQ(cuMemAddressFree(address, frame_bytes), cuda_success);
}

TEST_F(FakeCudaStreamDeathTest, ACopyToWhatIsUnmappedAborts) {
  const CudaAddress address = mapped_frame();
  give_back(address);
  const std::array<char, 8> text{};
  EXPECT_DEATH(
      {
        cuMemcpyHtoDAsync_v2(address, text.data(), text.size(), stream);
        cuStreamSynchronize(stream);
      },
      "copy to .* that is no device memory");
}

TEST_F(FakeCudaStreamDeathTest, ACopyThatAnUnmapOvertakesAborts) {
  EXPECT_DEATH(
      {
        const CudaAddress address = mapped_frame();
        cuMemsetD8Async(address, 1, frame_bytes, stream);
        cuMemUnmap(address, frame_bytes);
        cuStreamSynchronize(stream);
      },
      "unmap of .* still uses it");
}

// The work would run on what is mapped there then, and nobody would find out.
TEST_F(FakeCudaStreamDeathTest, AnotherFrameUnderQueuedWorkAborts) {
  EXPECT_DEATH(
      {
        const CudaAddress address = mapped_frame();
        cuMemsetD8Async(address, 1, frame_bytes, stream);
        cuMemUnmap(address, frame_bytes);
        cuMemMap(address, frame_bytes, 0, create(), 0);
        set_access(address, frame_bytes, cuda_mem_access_read_write);
        cuStreamSynchronize(stream);
      },
      "unmap of .* still uses it");
}

TEST_F(FakeCudaStreamDeathTest, AnUnmapAfterItsWorkIsFine) {
  const CudaAddress address = mapped_frame();
  ASSERT_EQ(cuMemsetD8Async(address, 1, frame_bytes, stream), cuda_success);
  ASSERT_EQ(cuStreamSynchronize(stream), cuda_success);
  give_back(address);
}

TEST_F(FakeCudaStreamDeathTest, ACopyThroughAReadOnlyMappingAborts) {
  const CudaAddress address = mapped_frame(cuda_mem_access_read);
  EXPECT_DEATH(
      {
        cuMemsetD8Async(address, 1, 64, stream);
        cuStreamSynchronize(stream);
      },
      "mapped read-only");
  give_back(address);
}

void unmap_under_a_running_kernel(CudaStream stream) {
  const CudaAddress address = mapped_frame();
  void* flag = nullptr;
  cuMemHostAlloc(&flag, 4096, 0);
  CudaModule module = nullptr;
  cuModuleLoadData(&module, "image");
  CudaFunction hold = nullptr;
  cuModuleGetFunction(&hold, module, "penstock_fake_hold");
  unsigned long long flag_address = reinterpret_cast<std::uintptr_t>(flag);
  unsigned long long memory = address;
  unsigned long long size = 64;
  std::array<void*, 3> parameters{&flag_address, &memory, &size};
  cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, stream, parameters.data(), nullptr);
  cuMemUnmap(address, frame_bytes);
  __atomic_store_n(static_cast<std::uint32_t*>(flag), 1, __ATOMIC_RELEASE);
  cuStreamSynchronize(stream);
}

TEST_F(FakeCudaStreamDeathTest, AnUnmapUnderARunningKernelAborts) {
  EXPECT_DEATH(unmap_under_a_running_kernel(stream), "unmap of .* still uses it");
}

// Lists of pieces and tiles in host memory, as the writer has them.
void launch_on(const char* kernel, void* host, CudaStream stream) {
  CudaModule module = nullptr;
  cuModuleLoadData(&module, "image");
  CudaFunction function = nullptr;
  cuModuleGetFunction(&function, module, kernel);
  unsigned long long list = reinterpret_cast<std::uintptr_t>(host);
  unsigned long long sums = list + 2048;
  std::array<void*, 2> parameters{&list, &sums};
  cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.data(), nullptr);
}

void* piece_to(CudaAddress address) {
  void* host = nullptr;
  cuMemHostAlloc(&host, 4096, 0);
  *static_cast<ScatterPiece*>(host) = {.source = reinterpret_cast<std::uintptr_t>(host) + 1024,
                                       .destination = address,
                                       .elements = 64,
                                       .scale = 1,
                                       .stored = ElementKind::bytes,
                                       .wanted = ElementKind::bytes,
                                       .zero = 0};
  return host;
}

void* tile_of(CudaAddress address) {
  void* host = nullptr;
  cuMemHostAlloc(&host, 4096, 0);
  *static_cast<ChecksumTile*>(host) = {.address = address, .bytes = 64, .first_word = 0, .sum = 0, .zero = 0};
  return host;
}

// Another frame is there when the kernel runs, and nothing else would tell.
void replace_under_queued_work(CudaAddress address, CudaStream stream) {
  cuMemUnmap(address, frame_bytes);
  cuMemMap(address, frame_bytes, 0, create(), 0);
  set_access(address, frame_bytes, cuda_mem_access_read_write);
  cuStreamSynchronize(stream);
}

TEST_F(FakeCudaStreamDeathTest, AnUnmapUnderAQueuedScatterAborts) {
  EXPECT_DEATH(
      {
        const CudaAddress address = mapped_frame();
        launch_on("penstock_scatter", piece_to(address + frame_bytes - 64), stream);
        replace_under_queued_work(address, stream);
      },
      "unmap of .* still uses it");
}

TEST_F(FakeCudaStreamDeathTest, AnUnmapUnderAQueuedChecksumAborts) {
  EXPECT_DEATH(
      {
        const CudaAddress address = mapped_frame();
        launch_on("penstock_checksum", tile_of(address), stream);
        replace_under_queued_work(address, stream);
      },
      "unmap of .* still uses it");
}

TEST_F(FakeCudaStreamDeathTest, AnUnmapBesideAQueuedScatterIsFine) {
  const CudaAddress address = mapped_frame();
  const CudaAddress other = mapped_frame();
  void* const host = piece_to(address);
  launch_on("penstock_scatter", host, stream);
  give_back(other);
  ASSERT_EQ(cuStreamSynchronize(stream), cuda_success);
  give_back(address);
  EXPECT_EQ(cuMemFreeHost(host), cuda_success);
}

TEST_F(FakeCudaStreamDeathTest, WhatWasDestroyedIsFoundOut) {
  CudaEvent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, cuda_event_disable_timing), cuda_success);
  ASSERT_EQ(cuEventDestroy_v2(event), cuda_success);
  EXPECT_DEATH(cuEventQuery(event), "the event was destroyed");
  CudaStream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, 0), cuda_success);
  ASSERT_EQ(cuStreamDestroy_v2(other), cuda_success);
  EXPECT_DEATH(cuStreamQuery(other), "the stream was destroyed");
  EXPECT_DEATH(cuStreamQuery(reinterpret_cast<CudaStream>(16)), "the stream is unknown");
  EXPECT_DEATH(cuCtxSetCurrent(reinterpret_cast<CudaContext>(16)), "that is no context");
  EXPECT_DEATH(cuMemFree_v2(4096), "was not allocated");
}

}  // namespace
}  // namespace penstock::fake
