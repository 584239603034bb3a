// SPDX-License-Identifier: Apache-2.0
// What is the host writer's own; the rest is in the contract suite.
#include "dataplane/device/host/host_frame_writer.hpp"

#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "dataplane/device/host/host_device.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t frame_bytes = 64 * kib;

class HostFrameWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<HostDevice> device = HostDevice::open(
        {.frame_bytes = frame_bytes, .capacity_bytes = 4 * frame_bytes, .pages = HostPages::small},
        headroom_);
    ASSERT_TRUE(device.has_value());
    device_.emplace(std::move(*device));
    const std::optional<FrameId> frame = make_frame(device_->owner());
    ASSERT_TRUE(frame.has_value());
    frame_ = *frame;
    ASSERT_TRUE(device_->writer().attach(frame_));
  }

  FixedHeadroom headroom_;
  std::optional<HostDevice> device_;
  FrameId frame_{};
  const std::vector<std::byte> source_ = std::vector<std::byte>(4096, std::byte{1});
};
using HostFrameWriterDeathTest = HostFrameWriterTest;

TEST_F(HostFrameWriterTest, DescriptorIsQuietOnceTheFenceWasSeen) {
  const Result<FenceId> fence = device_->writer().copy(frame_, 0, source_, {});
  ASSERT_TRUE(fence.has_value());
  ASSERT_TRUE(wait_reached(device_->writer(), *fence));
  ASSERT_TRUE(device_->writer().reached().has_value());
  pollfd entry{.fd = device_->writer().event_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
}

TEST_F(HostFrameWriterTest, AnEmptyCopyIsAFenceToo) {
  const Result<FenceId> fence = device_->writer().copy(frame_, frame_bytes, {}, {});
  ASSERT_TRUE(fence.has_value());
  EXPECT_TRUE(wait_reached(device_->writer(), *fence));
}

TEST_F(HostFrameWriterTest, AnAttachedFrameMayBeDestroyed) {
  device_->owner().destroy(frame_);
  EXPECT_TRUE(make_frame(device_->owner()).has_value());
}

TEST_F(HostFrameWriterDeathTest, BrokenRulesStopTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FrameWriter& writer = device_->writer();
  EXPECT_DEATH(static_cast<void>(writer.copy(frame_, frame_bytes - 1, source_, {})), "CHECK");
  EXPECT_DEATH(static_cast<void>(writer.copy(frame_, 0, source_, {Dtype::f32, Dtype::i8, 1.0f})), "CHECK");
  EXPECT_DEATH(
      {
        // No fence counts as reached before the caller has seen it.
        static_cast<void>(writer.copy(frame_, 0, source_, {}));
        device_->owner().destroy(frame_);
      },
      "CHECK");
  EXPECT_DEATH(
      {
        static_cast<void>(device_->owner().share(frame_, FrameAccess::shared_read_only));
        static_cast<void>(writer.copy(frame_, 0, source_, {}));
      },
      "CHECK");
  writer.detach(frame_);
  EXPECT_DEATH(static_cast<void>(writer.copy(frame_, 0, source_, {})), "CHECK");
}

}  // namespace
}  // namespace penstock
