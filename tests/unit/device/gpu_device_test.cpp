// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_device.hpp"

#include <array>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fixed_headroom.hpp"
#include "tests/support/scripted_filler.hpp"
#include "tests/support/scripted_gpu_driver.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t frames_max = 4;

class GpuDeviceTurn : public testing::Test {
 protected:
  void SetUp() override {
    auto owner = GpuFrameOwner::open(
        driver_, {.frame_bytes = 2 * mib, .capacity_bytes = frames_max * 2 * mib}, headroom_);
    ASSERT_TRUE(owner.has_value());
    auto filler = std::make_unique<ScriptedFiller>();
    filler_ = filler.get();
    auto device = GpuDevice::open(std::move(*owner), std::move(filler));
    ASSERT_TRUE(device.has_value());
    device_ = std::move(*device);
  }
  FrameOwner& owner() { return device_->owner(); }
  FrameWriter& writer() { return device_->writer(); }

  // Turns until the filler has so many fills queued, and says that nothing was answered meanwhile.
  bool turn_until_fills(int fills) {
    return eventually([&] {
      std::array<CreateDone, 1> none;
      EXPECT_EQ(owner().reap(none), 0u);
      return filler_->fills() == fills;
    });
  }
  FrameId make_attached() {
    owner().create(1);
    EXPECT_TRUE(turn_until_fills(filler_->fills() + 1));
    filler_->reach_all();
    const std::vector<CreateDone> done = reap_all(owner(), 1);
    EXPECT_EQ(done.at(0).result, CreateResult::created);
    EXPECT_TRUE(writer().attach(done.at(0).frame).has_value());
    return done.at(0).frame;
  }
  // One is lost, and the next one takes its place.
  void replace_filler() {
    filler_->lose(Errc::device);
    EXPECT_EQ(writer().reached().error().code, Errc::device);
    filler_->follow();
    EXPECT_TRUE(writer().reached().has_value());
  }
  Result<FenceId> copy(FrameId frame) { return writer().copy(frame, 0, bytes_, {}); }

  const std::shared_ptr<ScriptedGpuDriver> driver_ = std::make_shared<ScriptedGpuDriver>();
  const std::shared_ptr<FixedHeadroom> headroom_ = std::make_shared<FixedHeadroom>();
  std::unique_ptr<GpuDevice> device_;
  ScriptedFiller* filler_ = nullptr;  // The device's.
  std::array<std::byte, 16> bytes_{};
};

TEST_F(GpuDeviceTurn, AFrameIsCreatedWhenItIsZero) {
  owner().create(5);
  ASSERT_TRUE(turn_until_fills(1));
  filler_->reach_all();
  EXPECT_TRUE(wait_readable(owner().event_fd()));
  const std::vector<CreateDone> done = reap_all(owner(), 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done.front().tag, 5u);
  EXPECT_EQ(done.front().result, CreateResult::created);
}

TEST_F(GpuDeviceTurn, AMappingThatFailsIsTheCreationsAnswer) {
  filler_->fail_next_map({Errc::exhausted, 2, "scripted"});
  owner().create(5);
  ASSERT_TRUE(turn_until_fills(1));
  filler_->reach_all();
  const std::vector<CreateDone> done = reap_all(owner(), 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done.front().result, CreateResult::exhausted);
  EXPECT_EQ(done.front().native, 2);
  EXPECT_TRUE(filler_->mapped().empty());
  filler_->reach_all();
  EXPECT_TRUE(writer().reached().has_value());
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 0; }));
}

TEST_F(GpuDeviceTurn, MemoryIsReleasedAfterTheWriterUnmappedIt) {
  const FrameId frame = make_attached();
  writer().detach(frame);
  owner().destroy(frame);
  EXPECT_TRUE(filler_->mapped().empty());
  EXPECT_EQ(device_->stats().condemned, 1u);
  EXPECT_EQ(driver_->calls("release"), 0);
  filler_->reach_all();
  ASSERT_TRUE(writer().reached().has_value());
  EXPECT_EQ(device_->stats().condemned, 0u);
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 0; }));
}

TEST_F(GpuDeviceTurn, ABusyFillerDelaysAndLosesNothing) {
  const FrameId frame = make_attached();
  filler_->set_busy(true);
  EXPECT_EQ(copy(frame).error().code, Errc::busy);
  owner().destroy(frame);
  owner().create(2);
  ASSERT_TRUE(eventually([&] {
    std::array<CreateDone, 1> none;
    return owner().reap(none) == 0 && device_->stats().alive == 1;
  }));
  filler_->set_busy(false);
  ASSERT_TRUE(turn_until_fills(2));
  filler_->reach_all();
  EXPECT_EQ(reap_all(owner(), 1).size(), 1u);
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 1; }));
}

TEST_F(GpuDeviceTurn, ALossIsToldOnceAndThenTheNextFillerWorks) {
  const FrameId frame = make_attached();
  ASSERT_TRUE(copy(frame).has_value());
  filler_->lose(Errc::device);
  EXPECT_EQ(copy(frame).error().code, Errc::device);
  EXPECT_EQ(writer().reached().error().code, Errc::device);
  filler_->follow();
  ASSERT_TRUE(writer().reached().has_value());
  // What the lost one was filling is not filled by another.
  EXPECT_EQ(copy(frame).error().code, Errc::device);
  owner().destroy(frame);
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 0; }));
  EXPECT_TRUE(copy(make_attached()).has_value());
}

TEST_F(GpuDeviceTurn, ALossThatReapSawIsStillToldToTheWriter) {
  filler_->lose(Errc::device);
  std::array<CreateDone, 1> none;
  EXPECT_EQ(owner().reap(none), 0u);
  filler_->follow();
  EXPECT_TRUE(wait_readable(writer().event_fd()));
  EXPECT_EQ(writer().reached().error().code, Errc::device);
  EXPECT_TRUE(writer().reached().has_value());
}

TEST_F(GpuDeviceTurn, ACreationSurvivesALossWithAnotherFrame) {
  owner().create(9);
  ASSERT_TRUE(turn_until_fills(1));
  filler_->lose(Errc::device);
  EXPECT_EQ(writer().reached().error().code, Errc::device);
  ASSERT_TRUE(eventually([&] { return driver_->calls("create") == 2; }));
  filler_->follow();
  ASSERT_TRUE(turn_until_fills(2));
  filler_->reach_all();
  const std::vector<CreateDone> done = reap_all(owner(), 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done.front().tag, 9u);
  EXPECT_EQ(done.front().result, CreateResult::created);
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 1; }));
}

TEST_F(GpuDeviceTurn, WithoutAFillerToComeCreationsAreLost) {
  filler_->lose(Errc::closed);
  EXPECT_EQ(writer().reached().error().code, Errc::device);
  EXPECT_EQ(create_and_wait(owner()).result, CreateResult::lost);
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 0; }));
}

TEST_F(GpuDeviceTurn, APublishedFrameIsASourceForTheNextFillerToo) {
  const FrameId clean = make_attached();
  ASSERT_TRUE(owner().share(clean, FrameAccess::shared_read_only).has_value());
  replace_filler();
  const FrameId own = make_attached();
  const int fills = filler_->fills();
  ASSERT_TRUE(writer().copy_frame(own, clean).has_value());
  EXPECT_EQ(filler_->fills(), fills);
  EXPECT_TRUE(filler_->mapped().contains(clean));
}

TEST_F(GpuDeviceTurn, ASourceThatCantBeMappedCostsTheCopyAndIsMappedAnewForTheNext) {
  const FrameId clean = make_attached();
  ASSERT_TRUE(owner().share(clean, FrameAccess::shared_read_only).has_value());
  replace_filler();
  const FrameId own = make_attached();
  filler_->fail_next_map({Errc::exhausted, 2, "scripted"});
  // Both are said before the answer to the map.
  const Result<FenceId> failing = writer().copy_frame(own, clean), too = writer().copy_frame(own, clean);
  ASSERT_TRUE(failing.has_value() && too.has_value());
  filler_->reach_all();
  ASSERT_TRUE(writer().reached().has_value());
  for (const FenceId fence : {*failing, *too}) {
    const std::optional<Error> failure = writer().take_copy_failure(fence);
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->native, 2);
  }
  EXPECT_FALSE(filler_->mapped().contains(clean));
  const Result<FenceId> copied = writer().copy_frame(own, clean);
  ASSERT_TRUE(copied.has_value());
  filler_->reach_all();
  ASSERT_TRUE(writer().reached().has_value());
  EXPECT_FALSE(writer().take_copy_failure(*copied).has_value());
  EXPECT_TRUE(filler_->mapped().contains(clean));
  for (const FrameId frame : {clean, own}) owner().destroy(frame);
  filler_->reach_all();
  ASSERT_TRUE(writer().reached().has_value());
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 0; }));
}

TEST_F(GpuDeviceTurn, AFrameThatCouldNotBeMappedMayBeDestroyedBeforeThatIsHeard) {
  const FrameId clean = make_attached();
  replace_filler();
  const FrameId own = make_attached();
  filler_->fail_next_map({Errc::exhausted, 2, "scripted"});
  ASSERT_TRUE(writer().copy_frame(own, clean).has_value());
  owner().destroy(clean);
  filler_->reach_all();
  ASSERT_TRUE(writer().reached().has_value());
  EXPECT_EQ(filler_->mapped(), std::set<FrameId>{own});
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 1; }));
}

TEST_F(GpuDeviceTurn, ACreationThatNobodyHeardOfIsMadeAnewForTheNextFiller) {
  owner().create(7);
  ASSERT_TRUE(turn_until_fills(1));
  filler_->reach_all();
  ASSERT_TRUE(writer().reached().has_value());  // It is answered from now on.
  replace_filler();
  ASSERT_TRUE(turn_until_fills(2));
  filler_->reach_all();
  const std::vector<CreateDone> done = reap_all(owner(), 1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done.front().tag, 7u);
  EXPECT_TRUE(writer().attach(done.front().frame).has_value());
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 1; }));
}

TEST_F(GpuDeviceTurn, UnmappingsOfALostFillerAreOver) {
  const FrameId frame = make_attached();
  owner().destroy(frame);
  filler_->lose(Errc::device);
  EXPECT_EQ(writer().reached().error().code, Errc::device);
  EXPECT_TRUE(eventually([&] { return driver_->live_handles() == 0; }));
  EXPECT_EQ(device_->stats().condemned, 0u);
}

}  // namespace
}  // namespace penstock
