// SPDX-License-Identifier: Apache-2.0
// A test that is linked with the fake CUDA driver, and the short forms that its rules are tested with.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>

#include "tests/fakes/cuda/declarations.hpp"
#include "tests/fakes/fake_control.h"

extern "C" {
void penstock_fake_set_faults(const char* plan);
std::uint64_t penstock_fake_call_count(const char* name);
std::uint64_t penstock_fake_used_bytes(int device);
std::uint64_t penstock_fake_frames(int device);
void penstock_fake_live(penstock::FakeLive* live);
void penstock_fake_read_settings(void);
}

namespace penstock::fake {

inline constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
inline constexpr std::uint64_t frame_bytes = 4 * mebibyte;

inline CudaMemProperties device_memory(int types = cuda_mem_handle_posix_fd) {
  CudaMemProperties properties{};
  properties.type = cuda_mem_allocation_pinned;
  properties.handle_types = types;
  properties.location = {.type = cuda_mem_location_device, .id = 0};
  return properties;
}

inline CudaMemHandle create(std::uint64_t bytes = frame_bytes) {
  const CudaMemProperties properties = device_memory();
  CudaMemHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), cuda_success);
  return handle;
}

inline CudaAddress reserve(std::uint64_t bytes) {
  CudaAddress address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, bytes, frame_bytes, 0, 0), cuda_success);
  return address;
}

inline CudaResult set_access(CudaAddress address, std::uint64_t bytes, int flags) {
  const CudaMemAccess access{.location = {.type = cuda_mem_location_device, .id = 0}, .flags = flags};
  return cuMemSetAccess(address, bytes, &access, 1);
}

// Mapped and accessible; the handle is released, the mapping keeps the memory.
inline CudaAddress mapped_frame(int flags = cuda_mem_access_read_write) {
  const CudaAddress address = reserve(frame_bytes);
  const CudaMemHandle handle = create();
  EXPECT_EQ(cuMemMap(address, frame_bytes, 0, handle, 0), cuda_success);
  EXPECT_EQ(cuMemRelease(handle), cuda_success);
  if (flags != cuda_mem_access_none) {
    EXPECT_EQ(set_access(address, frame_bytes, flags), cuda_success);
  }
  return address;
}

inline void give_back(CudaAddress address) {
  EXPECT_EQ(cuMemUnmap(address, frame_bytes), cuda_success);
  EXPECT_EQ(cuMemAddressFree(address, frame_bytes), cuda_success);
}

// SIGSEGV, which sanitizers turn into an exit of their own.
inline bool died_of_a_fault(int status) {
  return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ||
         (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

// Initialised, no faults planned; afterwards nothing may be left.
class FakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    penstock_fake_set_faults("");
    ASSERT_EQ(cuInit(0), cuda_success);
  }
  void TearDown() override {
    penstock_fake_set_faults("");
    FakeLive live{};
    penstock_fake_live(&live);
    EXPECT_EQ(live.handles, 0U);
    EXPECT_EQ(live.mappings, 0U);
    EXPECT_EQ(live.reserved_bytes, 0U);
    EXPECT_EQ(live.registered_host_bytes, 0U);
    EXPECT_EQ(penstock_fake_used_bytes(0), 0U);
  }
};

// With a context and a stream.
class FakeCudaStream : public FakeCuda {
 protected:
  void SetUp() override {
    FakeCuda::SetUp();
    ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), cuda_success);
    ASSERT_EQ(cuStreamCreate(&stream, cuda_stream_non_blocking), cuda_success);
  }
  void TearDown() override {
    EXPECT_EQ(cuCtxDestroy_v2(context), cuda_success);
    FakeCuda::TearDown();
  }

  CudaContext context = nullptr;
  CudaStream stream = nullptr;
};

}  // namespace penstock::fake
