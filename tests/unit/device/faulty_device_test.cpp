// SPDX-License-Identifier: Apache-2.0
// The double itself: each fault happens and ends, each broken rule stops the process.
#include "tests/support/faulty_device.hpp"

#include <array>
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

bool readable_now(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

class FaultyDeviceTest : public testing::Test {
 protected:
  FaultyDeviceTest() {
    Result<HostDevice> device = HostDevice::open(
        {.frame_bytes = frame_bytes, .capacity_bytes = 8 * frame_bytes, .pages = HostPages::small},
        headroom_);
    if (!device) return;
    device_.emplace(std::move(*device));
    faulty_.emplace(device_->owner(), device_->writer());
  }
  void SetUp() override { ASSERT_TRUE(faulty_.has_value()); }

  FrameId make_attached() {
    const FrameId frame = make_frame(faulty_->owner()).value_or(FrameId{~0u});
    EXPECT_TRUE(faulty_->writer().attach(frame));
    return frame;
  }
  FenceId copy_into(FrameId frame) {
    const Result<FenceId> fence = faulty_->writer().copy(frame, 0, source_, {});
    EXPECT_TRUE(fence.has_value());
    return fence.value_or(FenceId{});
  }
  FenceId told() {
    const Result<FenceId> reached = faulty_->writer().reached();
    EXPECT_TRUE(reached.has_value());
    return reached.value_or(FenceId{});
  }

  FixedHeadroom headroom_;
  std::optional<HostDevice> device_;
  std::optional<FaultyDevice> faulty_;
  const std::vector<std::byte> source_ = std::vector<std::byte>(4096, std::byte{1});
};
using FaultyDeviceDeathTest = FaultyDeviceTest;

TEST_F(FaultyDeviceTest, RefusesCreationAfterTheGivenNumber) {
  faulty_->refuse_creation_after(2, CreateResult::no_headroom);
  EXPECT_EQ(create_and_wait(faulty_->owner()).result, CreateResult::created);
  EXPECT_EQ(create_and_wait(faulty_->owner()).result, CreateResult::created);
  EXPECT_EQ(create_and_wait(faulty_->owner()).result, CreateResult::no_headroom);
  EXPECT_EQ(create_and_wait(faulty_->owner()).result, CreateResult::no_headroom);
  faulty_->heal_creation();
  EXPECT_EQ(create_and_wait(faulty_->owner()).result, CreateResult::created);
  EXPECT_EQ(faulty_->frames_alive(), 3u);
}

TEST_F(FaultyDeviceTest, AnswersThatDoNotFitStayReadable) {
  faulty_->refuse_creation_after(0);
  for (std::uint64_t tag = 0; tag < 3; ++tag) faulty_->owner().create(tag);
  std::array<CreateDone, 1> done;
  for (std::uint64_t tag = 0; tag < 3; ++tag) {
    ASSERT_TRUE(readable_now(faulty_->owner().event_fd()));
    ASSERT_EQ(faulty_->owner().reap(done), 1u);
    EXPECT_EQ(done[0].tag, tag);
  }
  EXPECT_FALSE(readable_now(faulty_->owner().event_fd()));
}

TEST_F(FaultyDeviceTest, HeldCreationsAreAnsweredOnlyAfterRelease) {
  faulty_->hold_creations();
  faulty_->owner().create(5);
  std::array<CreateDone, 1> done;
  EXPECT_EQ(faulty_->owner().reap(done), 0u);
  EXPECT_FALSE(readable_now(faulty_->owner().event_fd()));
  EXPECT_EQ(faulty_->creations_held(), 1u);
  faulty_->release_creations();
  const std::vector<CreateDone> answers = reap_all(faulty_->owner(), 1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].tag, 5u);
  EXPECT_EQ(answers[0].result, CreateResult::created);
}

TEST_F(FaultyDeviceTest, HeldFencesAreReachedOnlyAfterRelease) {
  const FrameId frame = make_attached();
  faulty_->hold_fences();
  const FenceId fence = copy_into(frame);
  ASSERT_TRUE(wait_reached(device_->writer(), fence));  // The copy itself is done.
  EXPECT_LT(told(), fence);
  faulty_->release_fences();
  EXPECT_TRUE(wait_reached(faulty_->writer(), fence));
}

TEST_F(FaultyDeviceTest, HeldFencesAreReleasedByTheGivenPoll) {
  const FrameId frame = make_attached();
  faulty_->hold_fences(3);
  const FenceId fence = copy_into(frame);
  ASSERT_TRUE(wait_reached(device_->writer(), fence));
  EXPECT_LT(told(), fence);
  EXPECT_LT(told(), fence);
  EXPECT_TRUE(readable_now(faulty_->writer().event_fd()));
  EXPECT_EQ(told(), fence);
}

TEST_F(FaultyDeviceTest, ALostWriterFailsEverythingAndItsFramesCanBeDestroyed) {
  const FrameId frame = make_attached();
  faulty_->hold_fences();
  static_cast<void>(copy_into(frame));
  faulty_->lose_writer();
  ASSERT_TRUE(readable_now(faulty_->writer().event_fd()));
  const Result<FenceId> reached = faulty_->writer().reached();
  ASSERT_FALSE(reached.has_value());
  EXPECT_EQ(reached.error().code, Errc::device);
  EXPECT_FALSE(faulty_->writer().copy(frame, 0, source_, {}).has_value());
  faulty_->owner().destroy(frame);
  EXPECT_EQ(faulty_->frames_alive(), 0u);
  const std::optional<FrameId> next = make_frame(faulty_->owner());
  ASSERT_TRUE(next.has_value());
  EXPECT_FALSE(faulty_->writer().attach(*next).has_value());
}

TEST_F(FaultyDeviceDeathTest, UnknownAndDeadFramesStopTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(faulty_->owner().destroy(FrameId{3}), "CHECK");
  EXPECT_DEATH(static_cast<void>(faulty_->writer().attach(FrameId{3})), "CHECK");
  const FrameId frame = make_attached();
  faulty_->owner().destroy(frame);
  EXPECT_DEATH(faulty_->owner().destroy(frame), "CHECK");
  EXPECT_DEATH(static_cast<void>(faulty_->owner().share(frame, FrameAccess::private_writable)), "CHECK");
  EXPECT_DEATH(static_cast<void>(faulty_->writer().address(frame)), "CHECK");
}

TEST_F(FaultyDeviceDeathTest, APendingFenceForbidsDestroyShareAndDetach) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const FrameId frame = make_attached();
  const FenceId fence = copy_into(frame);
  EXPECT_DEATH(faulty_->owner().destroy(frame), "CHECK");
  EXPECT_DEATH(static_cast<void>(faulty_->owner().share(frame, FrameAccess::shared_read_only)), "CHECK");
  EXPECT_DEATH(faulty_->writer().detach(frame), "CHECK");
  ASSERT_TRUE(wait_reached(faulty_->writer(), fence));
  EXPECT_TRUE(faulty_->owner().share(frame, FrameAccess::shared_read_only).has_value());
}

TEST_F(FaultyDeviceDeathTest, CopiesNeedAnAttachedUnpublishedFrameAndFit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const FrameId frame = make_attached();
  EXPECT_DEATH(static_cast<void>(faulty_->writer().copy(frame, frame_bytes - 1, source_, {})), "CHECK");
  EXPECT_DEATH(static_cast<void>(faulty_->writer().attach(frame)), "CHECK");
  ASSERT_TRUE(faulty_->owner().share(frame, FrameAccess::shared_read_only).has_value());
  EXPECT_DEATH(static_cast<void>(faulty_->writer().copy(frame, 0, source_, {})), "CHECK");
  EXPECT_DEATH(static_cast<void>(faulty_->owner().share(frame, FrameAccess::private_writable)), "CHECK");
  faulty_->writer().detach(frame);
  const FrameId other = make_attached();
  EXPECT_DEATH(static_cast<void>(faulty_->writer().copy_frame(other, frame)), "CHECK");
}

}  // namespace
}  // namespace penstock
