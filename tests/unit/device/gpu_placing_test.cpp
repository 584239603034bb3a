// SPDX-License-Identifier: Apache-2.0
// Small pieces of a staged extent that are only placed: by one launch, or one by one, and the same bytes.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "dataplane/kernels/device_code.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t frame_bytes = 2 * mib;

class GpuPlacing : public testing::Test {
 protected:
  // ctest runs this once a vendor: PENSTOCK_TEST_GPU.
  static bool is_hip() {
    const char* const name = std::getenv("PENSTOCK_TEST_GPU");
    return name != nullptr && std::string_view(name).starts_with("hip");
  }

  void SetUp() override {
    if (is_hip() ? hip_device_code("gfx90a").empty() : cuda_device_code().empty())
      GTEST_SKIP() << "requires a compiler of device code for this vendor";
    for (std::size_t at = 0; at < staged_.size(); ++at) staged_[at] = static_cast<std::byte>(at * 131 >> 4);
    auto writer = GpuFrameWriter::open(fake_.gpu(), {.staging_chunk_bytes = 64 * kib, .staging_chunks = 4});
    ASSERT_TRUE(writer);
    writer_ = writer->get();
    auto owner = GpuFrameOwner::open(
        fake_.gpu(), {.frame_bytes = frame_bytes, .capacity_bytes = 2 * frame_bytes}, headroom_);
    ASSERT_TRUE(owner);
    auto device = GpuDevice::open(std::move(*owner), std::move(*writer));
    ASSERT_TRUE(device);
    device_ = std::move(*device);
    ASSERT_TRUE(device_->writer().use_staging(staged_, -1));
    frame_ = create_and_wait(device_->owner()).frame;
    ASSERT_TRUE(device_->writer().attach(frame_));
    fake_.set_faults("");  // Counts from here.
  }
  void TearDown() override { fake_.set_faults(""); }

  // `count` pieces of the staged bytes, none of them aligned, each to another place that is not.
  FenceId place(std::size_t count, std::uint64_t bytes) {
    FenceId last{};
    for (std::size_t piece = 0; piece < count; ++piece) {
      const std::uint64_t from = 1 + piece * (bytes + 5), to = 3 + piece * (bytes + 2),
                          size = bytes - piece % 3;
      const Result<FenceId> fence =
          device_->writer().copy(frame_, to, std::span<const std::byte>(staged_).subspan(from, size), {});
      EXPECT_TRUE(fence);
      if (!fence) return last;
      EXPECT_GT(*fence, last);
      last = *fence;
      std::copy_n(staged_.begin() + static_cast<std::ptrdiff_t>(from), size,
                  expected_.begin() + static_cast<std::ptrdiff_t>(to));
    }
    return last;
  }
  void expect_placed(FenceId fence) {
    ASSERT_TRUE(wait_reached(device_->writer(), fence));
    std::vector<std::byte> seen(frame_bytes);
    const Result<FenceId> read = writer_->read_out(frame_, seen);
    ASSERT_TRUE(read && wait_reached(device_->writer(), *read));
    EXPECT_TRUE(seen == expected_);
  }
  std::uint64_t launches() const {
    return fake_.calls(is_hip() ? "hipModuleLaunchKernel" : "cuLaunchKernel");
  }
  std::uint64_t copies() const { return fake_.calls(is_hip() ? "hipMemcpyHtoDAsync" : "cuMemcpyHtoDAsync"); }

  const FakeGpu& fake_ = is_hip() ? FakeGpu::hip("7.1") : FakeGpu::cuda();
  std::vector<std::byte> staged_ = std::vector<std::byte>(frame_bytes);
  std::vector<std::byte> expected_ = std::vector<std::byte>(frame_bytes);
  const std::shared_ptr<FixedHeadroom> headroom_ = std::make_shared<FixedHeadroom>();
  std::unique_ptr<GpuDevice> device_;
  GpuFrameWriter* writer_ = nullptr;  // The device's.
  FrameId frame_{};
};

TEST_F(GpuPlacing, ManySmallPiecesAreOneLaunch) {
  const FenceId fence = place(100, 4001);
  EXPECT_EQ(launches() + copies(), 0u) << "they wait for what comes next";
  device_->writer().flush();
  EXPECT_EQ(launches(), 1u);
  EXPECT_EQ(copies(), 0u);
  expect_placed(fence);
}

TEST_F(GpuPlacing, FewOrLargePiecesAreTheCopyEngines) {
  device_->writer().flush();
  expect_placed(place(3, 4001));
  EXPECT_EQ(copies(), 3u);
  expect_placed(place(8, 64 * kib + 2));
  EXPECT_EQ(launches(), 0u);
  EXPECT_EQ(copies(), 11u);
}

TEST_F(GpuPlacing, MoreThanAListHoldsAreSeveralLaunches) {
  expect_placed(place(600, 1000));
  EXPECT_EQ(launches(), 3u);
  EXPECT_EQ(copies(), 0u);
}

TEST_F(GpuPlacing, PiecesThatOverlapKeepTheirOrder) {
  const std::span<const std::byte> staged(staged_);
  FenceId last{};
  for (std::uint64_t round = 0; round < 6; ++round)
    last = *device_->writer().copy(frame_, 10, staged.subspan(round * 1000, 1000), {});
  std::copy_n(staged_.begin() + 5000, 1000, expected_.begin() + 10);
  expect_placed(last);
  EXPECT_EQ(launches(), 0u);
}

TEST_F(GpuPlacing, WhatComesBehindThemWaitsForThem) {
  const FrameId other = create_and_wait(device_->owner()).frame;
  ASSERT_TRUE(device_->writer().attach(other));
  place(100, 4001);
  const Result<FenceId> copied = device_->writer().copy_frame(other, frame_);
  ASSERT_TRUE(copied && wait_reached(device_->writer(), *copied));
  std::vector<std::byte> seen(frame_bytes);
  const Result<FenceId> read = writer_->read_out(other, seen);
  ASSERT_TRUE(read && wait_reached(device_->writer(), *read));
  EXPECT_TRUE(seen == expected_);
}

TEST_F(GpuPlacing, ALaunchThatIsRefusedLosesTheWriterAndIsTold) {
  for (const char* const call : {is_hip() ? "hipModuleLaunchKernel:702@1" : "cuLaunchKernel:702@1"}) {
    fake_.set_faults(call);
    place(100, 4001);
    const Result<FenceId> reached = device_->writer().reached();
    ASSERT_FALSE(reached);
    EXPECT_EQ(reached.error().code, Errc::device);
    EXPECT_EQ(reached.error().native, 702);
  }
}

}  // namespace
}  // namespace penstock
