// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame_owner.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/drive_device.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t frame_bytes = 64 * kib;
constexpr std::uint64_t reserve_bytes = 16 * kib;

HostFrameOptions small_frames(std::uint64_t capacity_frames, std::size_t ready_frames) {
  return {.frame_bytes = frame_bytes,
          .capacity_bytes = capacity_frames * frame_bytes,
          .ready_pool_frames = ready_frames,
          .reserve_bytes = reserve_bytes,
          .pages = HostPages::small};
}

std::unique_ptr<HostFrameOwner> open_owner(const HostFrameOptions& options, HeadroomSource& headroom) {
  Result<std::unique_ptr<HostFrameOwner>> owner = HostFrameOwner::open(options, headroom);
  EXPECT_TRUE(owner.has_value());
  return owner ? std::move(*owner) : nullptr;
}

// Mappings of frames in this process, as the kernel sees them.
std::uint64_t frames_mapped() {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("penstock-frame") != std::string::npos;
  return count;
}
std::uint64_t frame_descriptors() {
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path(), gone).string().find("penstock-frame") !=
             std::string::npos;
  }
  return count;
}

// A HeadroomSource that stops the maker's thread at its question until it is opened.
class Gate final : public HeadroomSource {
 public:
  std::uint64_t headroom_bytes() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    return 1 * tib;
  }
  std::uint64_t limit_bytes() override { return 1 * tib; }
  void set(bool open) {
    {
      const std::lock_guard lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

// Counts the frames that exist each time that the maker asks whether it may make one more.
class Census final : public HeadroomSource {
 public:
  std::uint64_t headroom_bytes() override {
    most_ = std::max(most_.load(), frame_descriptors());
    return 1 * tib;
  }
  std::uint64_t limit_bytes() override { return 1 * tib; }
  std::uint64_t most() const { return most_; }

 private:
  std::atomic<std::uint64_t> most_{0};
};

TEST(HostFrameOwner, RefusesASizeThatIsNoMultipleOfThePage) {
  FixedHeadroom headroom;
  const auto owner = HostFrameOwner::open({.frame_bytes = 1000, .capacity_bytes = 1 * mib}, headroom);
  ASSERT_FALSE(owner.has_value());
  EXPECT_EQ(owner.error().code, Errc::invalid);
}

TEST(HostFrameOwner, AReadyFrameAnswersAtOnce) {
  FixedHeadroom headroom;
  const auto owner = open_owner(small_frames(16, 4), headroom);
  ASSERT_TRUE(eventually([&] { return owner->stats().ready == 4; }));
  owner->create(1);
  std::array<CreateDone, 1> done;
  EXPECT_EQ(owner->reap(done), 1u);
  EXPECT_EQ(done[0].result, CreateResult::created);
  EXPECT_EQ(owner->stats().waited_total, 0u);
}

TEST(HostFrameOwner, TheDescriptorIsReadableWhileAnswersAreLeft) {
  FixedHeadroom headroom;
  const auto owner = open_owner(small_frames(16, 4), headroom);
  ASSERT_TRUE(eventually([&] { return owner->stats().ready == 4; }));
  for (std::uint64_t tag = 0; tag < 3; ++tag) owner->create(tag);
  std::array<CreateDone, 1> done;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(wait_readable(owner->event_fd()));
    ASSERT_EQ(owner->reap(done), 1u);
  }
  EXPECT_EQ(owner->reap(done), 0u);
}

TEST(HostFrameOwner, CreationIsAnsweredInOrderByTheMakersThread) {
  Gate gate;
  gate.set(false);
  const auto owner = open_owner(small_frames(16, 0), gate);
  for (std::uint64_t tag = 0; tag < 8; ++tag) owner->create(tag);
  std::array<CreateDone, 1> none;
  EXPECT_EQ(owner->reap(none), 0u);
  gate.set(true);
  const std::vector<CreateDone> done = reap_all(*owner, 8);
  for (std::uint64_t tag = 0; tag < 8; ++tag) EXPECT_EQ(done[tag].tag, tag);
}

TEST(HostFrameOwner, ADyingFrameCountsUntilItsMemoryIsGone) {
  Gate gate;
  const auto owner = open_owner(small_frames(2, 0), gate);
  const std::optional<FrameId> first = make_frame(*owner);
  const std::optional<FrameId> second = make_frame(*owner);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(create_and_wait(*owner).result, CreateResult::exhausted);

  owner->destroy(*first);
  ASSERT_TRUE(make_frame(*owner).has_value());  // Not exhausted: it waited for the dying one.
  gate.set(false);
  owner->destroy(*second);
  // The maker's thread goes on to make one ahead, and stands at the gate.
  ASSERT_TRUE(eventually([&] { return owner->stats().dying == 0 && owner->stats().in_the_making == 1; }));
  owner->create(7);
  owner->create(8);
  const std::vector<CreateDone> refused = reap_all(*owner, 1);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].tag, 8u);
  EXPECT_EQ(refused[0].result, CreateResult::exhausted);
  gate.set(true);
  const std::vector<CreateDone> made = reap_all(*owner, 1);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].tag, 7u);
  EXPECT_EQ(made[0].result, CreateResult::created);
}

TEST(HostFrameOwner, NeverMoreFramesThanTheCapacityExist) {
  Census census;
  const auto owner = open_owner(small_frames(8, 4), census);
  std::vector<FrameId> alive;
  for (int step = 0; step < 400; ++step) {
    // At the end of each round destroy and create at once, so that the creation meets the dying.
    if (step % 5 == 4 && !alive.empty()) {
      owner->destroy(alive.front());
      alive.erase(alive.begin());
    }
    const CreateDone done = create_and_wait(*owner);
    ASSERT_EQ(done.result == CreateResult::created, alive.size() < 8) << "step " << step;
    if (done.result == CreateResult::created) alive.push_back(done.frame);
  }
  EXPECT_EQ(census.most(), 7u);  // With the one that was asked for: the capacity.
}

TEST(HostFrameOwner, DestroyGivesMemoryAndDescriptorsBack) {
  FixedHeadroom headroom;
  const std::uint64_t before = headroom.headroom_bytes();
  {
    const auto owner = open_owner(small_frames(8, 8), headroom);
    std::vector<FrameId> frames;
    for (int i = 0; i < 8; ++i) frames.push_back(make_frame(*owner).value_or(FrameId{}));
    EXPECT_EQ(frames_mapped(), 8u);
    EXPECT_EQ(headroom.headroom_bytes(), before - 8 * frame_bytes);
    for (const FrameId frame : frames) owner->destroy(frame);
    ASSERT_TRUE(eventually([&] { return owner->stats().dying == 0 && owner->stats().ready == 8; }));
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(make_frame(*owner).has_value());
  }
  EXPECT_EQ(frames_mapped(), 0u);
  EXPECT_EQ(frame_descriptors(), 0u);
}

TEST(HostFrameOwner, HeadroomIsAskedBeforeEachFrame) {
  FixedHeadroom headroom(5 * frame_bytes + reserve_bytes);
  const auto owner = open_owner(small_frames(100, 4), headroom);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(make_frame(*owner).has_value());
  const CreateDone refused = create_and_wait(*owner);
  EXPECT_EQ(refused.result, CreateResult::no_headroom);
  EXPECT_EQ(headroom.headroom_bytes(), reserve_bytes);
  headroom.change_by(static_cast<std::int64_t>(frame_bytes));
  EXPECT_TRUE(make_frame(*owner).has_value());
  EXPECT_EQ(owner->stats().no_headroom_total, 1u);
}

TEST(HostFrameOwner, IdleFramesLeaveHalfOfTheHeadroom) {
  FixedHeadroom headroom(11 * frame_bytes + reserve_bytes);
  const auto owner = open_owner(small_frames(100, 50), headroom);
  ASSERT_TRUE(eventually([&] { return owner->stats().ready == 5; }));
  // A creation makes it try again; it takes from the pool and finds no more room to fill it up than before.
  ASSERT_TRUE(make_frame(*owner).has_value());
  EXPECT_TRUE(eventually([&] { return owner->stats().in_the_making == 0; }));
  EXPECT_GE(headroom.headroom_bytes(), owner->stats().ready * frame_bytes);
}

TEST(HostFrameOwner, AFrameOnItsWayOutServesACreationThatLacksHeadroom) {
  FixedHeadroom headroom(1 * frame_bytes + reserve_bytes);
  const auto owner = open_owner(small_frames(100, 0), headroom);
  const std::optional<FrameId> only = make_frame(*owner);
  ASSERT_TRUE(only.has_value());
  for (int i = 0; i < 50; ++i) {
    const std::optional<FrameId> frame = i == 0 ? only : make_frame(*owner);
    ASSERT_TRUE(frame.has_value()) << "round " << i;
    owner->destroy(*frame);
  }
}

TEST(HostFrameOwner, AFullDescriptorTableIsAnAnswerOfItsOwn) {
  FixedHeadroom headroom;
  const auto owner = open_owner(small_frames(100, 0), headroom);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const CreateDone refused = create_and_wait(*owner);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(refused.result, CreateResult::fd_limit);
  EXPECT_EQ(refused.native, EMFILE);
  EXPECT_TRUE(make_frame(*owner).has_value());
}

TEST(HostFrameOwner, ThePoolGrowsWhenItRunsDryAndShrinksWhenIdle) {
  Gate gate;
  gate.set(false);
  HostFrameOptions options = small_frames(64, 1);
  options.pool_decay_interval = std::chrono::milliseconds(20);
  const auto owner = open_owner(options, gate);
  for (std::uint64_t tag = 0; tag < 32; ++tag) owner->create(tag);
  gate.set(true);
  ASSERT_EQ(reap_all(*owner, 32).size(), 32u);
  EXPECT_TRUE(eventually([&] { return owner->stats().made_total == 34; }));  // A burst doubles it once.
  EXPECT_TRUE(eventually([&] { return owner->stats().ready == 1 && owner->stats().dying == 0; }));
  EXPECT_EQ(owner->stats().made_total, 34u);
}

TEST(HostFrameOwner, ThePoolDoublesOnceForEachTimeThatItRunsDry) {
  Gate gate;
  HostFrameOptions options = small_frames(64, 1);
  options.pool_decay_interval = std::chrono::hours(1);
  const auto owner = open_owner(options, gate);
  for (std::uint64_t full = 1; full <= 8; full *= 2) {
    ASSERT_TRUE(eventually([&] { return owner->stats().ready == full; }));
    gate.set(false);
    for (std::uint64_t tag = 0; tag < full + 2; ++tag) owner->create(tag);
    gate.set(true);
    ASSERT_EQ(reap_all(*owner, full + 2).size(), full + 2);
  }
  EXPECT_TRUE(eventually([&] { return owner->stats().ready == 16; }));
}

TEST(HostFrameOwner, GivesFramesMadeAheadBackAtOnceWhenNoneMayBeMadeAhead) {
  FixedHeadroom headroom;
  const auto owner = open_owner(small_frames(16, 4), headroom);
  ASSERT_TRUE(eventually([&] { return owner->stats().ready == 4; }));
  owner->set_making_ahead(false);
  EXPECT_EQ(owner->stats().ready, 0u);
  EXPECT_TRUE(eventually([&] { return owner->stats().dying == 0; }));
  EXPECT_EQ(headroom.headroom_bytes(), headroom.limit_bytes());
  // Demand is served all the same.
  EXPECT_EQ(create_and_wait(*owner).result, CreateResult::created);
  EXPECT_EQ(owner->stats().ready, 0u);
  owner->set_making_ahead(true);
  EXPECT_TRUE(eventually([&] { return owner->stats().ready >= 4; }));
}

TEST(HostCapacity, IsAQuarterOfTheTightestLimitInWholeFrames) {
  FixedHeadroom of_a_node(64 * gib), of_a_container(100 * mib), tiny(4 * mib);
  EXPECT_EQ(default_host_capacity(of_a_node, 8 * mib), 16 * gib);
  EXPECT_EQ(default_host_capacity(of_a_container, 8 * mib), 24 * mib);
  EXPECT_EQ(default_host_capacity(tiny, 8 * mib), 8 * mib);
}

TEST(HostFrameOwnerDeathTest, NamingADeadFrameStopsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FixedHeadroom headroom;
  const auto owner = open_owner(small_frames(4, 0), headroom);
  const FrameId frame = make_frame(*owner).value_or(FrameId{});
  owner->destroy(frame);
  EXPECT_DEATH(owner->destroy(frame), "CHECK");
  EXPECT_DEATH(static_cast<void>(owner->share(frame, FrameAccess::private_writable)), "CHECK");
}

}  // namespace
}  // namespace penstock
