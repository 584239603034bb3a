// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_frame_owner.hpp"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fixed_headroom.hpp"
#include "tests/support/scripted_gpu_driver.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t frames_max = 4;

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

class GpuOwner : public testing::Test {
 protected:
  // Watchdog tests alone have a short limit: a busy machine must not quarantine the others' GPU.
  void open(std::chrono::milliseconds call_limit = 60s, std::chrono::milliseconds probe_after = 60s) {
    Result<std::unique_ptr<GpuFrameOwner>> opened =
        GpuFrameOwner::open(driver_,
                            {.frame_bytes = 2 * mib,
                             .capacity_bytes = frames_max * 2 * mib,
                             .call_limit = call_limit,
                             .probe_after = probe_after,
                             .probe_after_most = 4 * probe_after},
                            headroom_);
    ASSERT_TRUE(opened.has_value());
    owner_ = std::move(*opened);
  }
  CreateResult create() { return create_and_wait(*owner_).result; }
  // With so many left for the whole process.
  CreateResult create_with_descriptors(rlim_t left) {
    rlimit before{};
    CHECK(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    rlimit tight = before;
    tight.rlim_cur =
        static_cast<rlim_t>(UniqueFd(::fcntl(owner_->event_fd(), F_DUPFD_CLOEXEC, 0)).get()) + left;
    CHECK(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
    const CreateResult result = create();
    CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    return result;
  }
  bool gives_back(std::uint64_t handles) {
    return eventually([&] { return driver_->live_handles() == handles; });
  }

  const std::shared_ptr<ScriptedGpuDriver> driver_ = std::make_shared<ScriptedGpuDriver>();
  const std::shared_ptr<FixedHeadroom> headroom_ = std::make_shared<FixedHeadroom>();
  std::unique_ptr<GpuFrameOwner> owner_;
};

TEST_F(GpuOwner, RefusesWhatTheGpuCannotDo) {
  const auto opened = [&](std::uint64_t frame_bytes, std::uint64_t capacity) {
    return GpuFrameOwner::open(driver_, {.frame_bytes = frame_bytes, .capacity_bytes = capacity}, headroom_);
  };
  EXPECT_EQ(opened(1 * mib, 64 * mib).error().code, Errc::invalid);
  EXPECT_EQ(opened(32 * mib, 16 * mib).error().code, Errc::invalid);
  EXPECT_TRUE(opened(32 * mib, 64 * mib).has_value());
}

TEST_F(GpuOwner, MakesNoDriverCallOnTheCallersThread) {
  open();
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  ASSERT_TRUE(owner_->share(*frame, FrameAccess::shared_read_only).has_value());
  owner_->destroy(*frame);
  ASSERT_TRUE(gives_back(0));
  owner_.reset();
  EXPECT_EQ(driver_->calls("create"), 1);
  EXPECT_EQ(driver_->calls("release"), 1);
  EXPECT_FALSE(driver_->was_called_by(std::this_thread::get_id()));
}

TEST_F(GpuOwner, ExportsEachFrameOnce) {
  open();
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  for (int client = 0; client < 3; ++client) {
    ASSERT_TRUE(owner_->share(*frame, FrameAccess::shared_read_only).has_value());
  }
  EXPECT_EQ(driver_->calls("export"), 1);
  EXPECT_NE(::fcntl(owner_->descriptor(*frame), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(GpuOwner, OutOfMemoryIsExhaustedAndPasses) {
  open();
  driver_->refuse("create", 2);
  EXPECT_EQ(create(), CreateResult::exhausted);
  EXPECT_EQ(create(), CreateResult::created);
  EXPECT_FALSE(owner_->stats().quarantined);
}

TEST_F(GpuOwner, OneRefusalIsNoReasonToGiveTheGpuUp) {
  open();
  for (int round = 0; round < 3; ++round) {
    driver_->refuse("create", 800, 2);
    EXPECT_EQ(create(), CreateResult::lost);
    EXPECT_EQ(create(), CreateResult::lost);
    EXPECT_EQ(create(), CreateResult::created);
  }
  EXPECT_FALSE(owner_->stats().quarantined);
  EXPECT_EQ(owner_->stats().last_native, 800);
}

TEST_F(GpuOwner, ThreeRefusalsInARowGiveTheGpuUp) {
  open();
  driver_->refuse("create", 800, 3);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(create(), CreateResult::lost);
  EXPECT_TRUE(owner_->stats().quarantined);
  EXPECT_EQ(create(), CreateResult::lost);
  EXPECT_EQ(driver_->calls("create"), 3);
}

TEST_F(GpuOwner, ADeadDeviceIsGivenUpAtOnceAndItsFramesAreGivenBack) {
  open();
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  driver_->refuse("create", 4);
  EXPECT_EQ(create(), CreateResult::lost);
  EXPECT_TRUE(owner_->stats().quarantined);
  owner_->destroy(*frame);
  EXPECT_TRUE(gives_back(0));
}

TEST_F(GpuOwner, ADeadDeviceIsTriedAgainUntilItWorks) {
  open(60s, 5ms);
  driver_->refuse("create", 4, 4);
  EXPECT_EQ(create(), CreateResult::lost);
  ASSERT_TRUE(eventually([&] { return !owner_->stats().quarantined; }));
  EXPECT_EQ(driver_->calls("create"), 5);
  EXPECT_EQ(driver_->live_handles(), 0u);
  EXPECT_EQ(owner_->stats().recoveries_total, 1u);
  EXPECT_EQ(owner_->stats().contents_losses_total, 1u);
  EXPECT_EQ(create(), CreateResult::created);
}

TEST_F(GpuOwner, ADeviceThatIsGoneAfterItWasGivenUpIsOneLoss) {
  open(20ms, 5ms);
  driver_->hang("create");
  EXPECT_EQ(create(), CreateResult::lost);
  driver_->refuse("create", 4, 3);
  driver_->let_go();
  ASSERT_TRUE(eventually([&] { return !owner_->stats().quarantined; }));
  EXPECT_EQ(driver_->calls("create"), 4);
  EXPECT_EQ(owner_->stats().contents_losses_total, 1u);
}

TEST_F(GpuOwner, ADriverThatHungIsTriedAgainWhenItHasAnswered) {
  open(20ms, 5ms);
  driver_->hang("create");
  EXPECT_EQ(create(), CreateResult::lost);
  EXPECT_TRUE(owner_->stats().quarantined);
  EXPECT_EQ(owner_->stats().contents_losses_total, 0u);
  driver_->let_go();
  ASSERT_TRUE(eventually([&] { return !owner_->stats().quarantined; }));
  EXPECT_EQ(create(), CreateResult::created);
}

TEST_F(GpuOwner, WhatTheCallerGaveUpStaysGivenUp) {
  open(60s, 1ms);
  owner_->quarantine();
  const std::optional<FrameId> none = make_frame(*owner_);
  EXPECT_FALSE(none.has_value());
  owner_.reset();
  EXPECT_EQ(driver_->calls("create"), 0);
}

TEST_F(GpuOwner, AFrameThatCannotBeExportedIsReleased) {
  open();
  driver_->refuse("export", 801);
  EXPECT_EQ(create(), CreateResult::lost);
  EXPECT_EQ(driver_->live_handles(), 0u);
}

TEST_F(GpuOwner, AReleaseThatFailsIsTriedAgain) {
  open();
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  driver_->refuse("release", 1);
  owner_->destroy(*frame);
  ASSERT_TRUE(eventually([&] { return owner_->stats().unreturned == 1; }));
  EXPECT_EQ(driver_->live_handles(), 1u);
  EXPECT_EQ(create(), CreateResult::created);
  EXPECT_EQ(owner_->stats().unreturned, 0u);
  EXPECT_EQ(driver_->live_handles(), 1u);
}

TEST_F(GpuOwner, WhatCannotBeReleasedCountsAgainstTheCapacity) {
  open();
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  driver_->refuse("release", 1, 1000);
  owner_->destroy(*frame);
  ASSERT_TRUE(eventually([&] { return owner_->stats().unreturned == 1; }));
  for (std::uint64_t made = 0; made < frames_max - 1; ++made) EXPECT_EQ(create(), CreateResult::created);
  EXPECT_EQ(create(), CreateResult::exhausted);
  driver_->refuse("release", 0, 0);
  EXPECT_EQ(create(), CreateResult::created);
  owner_.reset();
  EXPECT_EQ(driver_->live_handles(), 0u);
}

TEST_F(GpuOwner, ALackOfDescriptorsIsNamedAsThat) {
  open();
  EXPECT_EQ(create_with_descriptors(0), CreateResult::fd_limit);
  EXPECT_EQ(driver_->live_handles(), 0u);
  EXPECT_EQ(create(), CreateResult::created);
}

TEST_F(GpuOwner, ADriverThatGotSomeOfItsDescriptorsLacksThemToo) {
  open();
  driver_->refuse("create", 2, 2);
  EXPECT_EQ(create_with_descriptors(1), CreateResult::fd_limit);
  EXPECT_EQ(create_with_descriptors(2), CreateResult::exhausted);
}

TEST_F(GpuOwner, ACreationWaitsForWhatIsCondemned) {
  open();
  std::vector<FrameId> frames;
  for (std::uint64_t made = 0; made < frames_max; ++made) frames.push_back(make_frame(*owner_).value());
  owner_->condemn(frames.front());
  owner_->create(7);
  // Nothing can be told of something that does not happen; the counts say that it could not have.
  EXPECT_EQ(owner_->stats().condemned, 1u);
  EXPECT_EQ(driver_->live_handles(), frames_max);
  owner_->destroy(frames.front());
  const std::vector<CreateDone> done = reap_all(*owner_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done.front().result, CreateResult::created);
  EXPECT_EQ(driver_->live_handles(), frames_max);
}

TEST_F(GpuOwner, AHungCallGivesTheGpuUpAndAnswersEveryone) {
  const std::ptrdiff_t descriptors = open_descriptors();
  open(50ms);
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  driver_->hang("create");
  for (std::uint64_t tag = 1; tag < frames_max; ++tag) owner_->create(tag);
  std::uint64_t next = 1;
  for (const CreateDone& done : reap_all(*owner_, frames_max - 1)) {
    EXPECT_EQ(done.result, CreateResult::lost);
    EXPECT_EQ(done.tag, next++);
  }
  EXPECT_TRUE(driver_->is_hanging());
  EXPECT_TRUE(owner_->stats().quarantined);
  EXPECT_STREQ(owner_->stats().last_call, "create");
  EXPECT_EQ(create(), CreateResult::lost);
  owner_->destroy(*frame);
  owner_.reset();  // Leaves the thread behind.
  EXPECT_TRUE(driver_->is_hanging());
  driver_->let_go();
  EXPECT_TRUE(gives_back(0));
  EXPECT_TRUE(eventually([&] { return open_descriptors() == descriptors; }));
}

TEST_F(GpuOwner, AHungReleaseGivesTheGpuUpToo) {
  open(50ms);
  const std::optional<FrameId> frame = make_frame(*owner_);
  ASSERT_TRUE(frame.has_value());
  driver_->hang("release");
  owner_->destroy(*frame);
  ASSERT_TRUE(eventually([&] { return owner_->stats().quarantined; }));
  EXPECT_EQ(create(), CreateResult::lost);
  driver_->let_go();
  EXPECT_TRUE(gives_back(0));
}

TEST_F(GpuOwner, ADeviceThatIsSlowButAnswersIsKept) {
  open(10s);
  driver_->hang("create");
  owner_->create(1);
  ASSERT_TRUE(eventually([&] { return driver_->is_hanging(); }));
  driver_->let_go();
  const std::vector<CreateDone> done = reap_all(*owner_, 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done.front().result, CreateResult::created);
}

TEST_F(GpuOwner, EndsWhileCreationsWait) {
  open();
  driver_->hang("create");
  for (std::uint64_t tag = 0; tag < frames_max; ++tag) owner_->create(tag);
  ASSERT_TRUE(eventually([&] { return driver_->is_hanging(); }));
  std::thread end([&] { owner_.reset(); });
  driver_->let_go();
  end.join();
  EXPECT_EQ(driver_->live_handles(), 0u);
}

}  // namespace
}  // namespace penstock
