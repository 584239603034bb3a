// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_watch.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include <gtest/gtest.h>

#include "tests/support/eventually.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;

// What a test wants its source to answer; outlives the source, which may be left behind.
struct Script {
  std::mutex mutex;
  std::condition_variable changed;
  Result<std::vector<DeviceUsage>> answer = std::vector<DeviceUsage>(1);
  bool hangs = false;
  bool destroyed = false;

  void set(Result<std::vector<DeviceUsage>> next) {
    const std::lock_guard lock(mutex);
    answer = std::move(next);
  }
  void hang(bool on) {
    const std::lock_guard lock(mutex);
    hangs = on;
    changed.notify_all();
  }
  bool is_destroyed() {
    const std::lock_guard lock(mutex);
    return destroyed;
  }
};

class ScriptedSource final : public UsageSource {
 public:
  explicit ScriptedSource(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  ~ScriptedSource() override {
    const std::lock_guard lock(script_->mutex);
    script_->destroyed = true;
  }
  std::string_view name() const override { return "scripted"; }
  Result<std::vector<DeviceUsage>> read() override {
    std::unique_lock lock(script_->mutex);
    script_->changed.wait(lock, [this] { return !script_->hangs; });
    return script_->answer;
  }

 private:
  const std::shared_ptr<Script> script_;
};

class UsageWatchTest : public testing::Test {
 protected:
  std::unique_ptr<UsageWatch> start(const UsageTimes& times) {
    return std::make_unique<UsageWatch>(std::make_unique<ScriptedSource>(script_), times);
  }
  static std::vector<DeviceUsage> used(std::uint64_t bytes) {
    std::vector<DeviceUsage> devices(1);
    devices[0].used_bytes = bytes;
    return devices;
  }

  const std::shared_ptr<Script> script_ = std::make_shared<Script>();
  const UsageTimes brisk_{.interval = 1ms, .retry = 1ms, .stall = 5s};
  const UsageTimes lazy_{.interval = 1h, .retry = 1h, .stall = 5s};
};

TEST_F(UsageWatchTest, TellsTheNewestFiguresWithTheirAge) {
  script_->set(used(5));
  const auto watch = start(lazy_);
  const Nanoseconds before = monotonic_now();
  ASSERT_TRUE(eventually([&] { return watch->newest(before).readings == 1; }));
  const UsageSnapshot snapshot = watch->newest(monotonic_now() + 3s);
  EXPECT_EQ(snapshot.state, UsageState::current);
  EXPECT_EQ(snapshot.devices.at(0).used_bytes, 5u);
  EXPECT_GE(snapshot.age, 3s);
  EXPECT_LT(snapshot.age, 23s);
  EXPECT_EQ(snapshot.waiting, 0s);
  EXPECT_EQ(watch->name(), "scripted");
}

TEST_F(UsageWatchTest, ReadsAgainAndAgain) {
  const auto watch = start(brisk_);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).readings > 3; }));
  script_->set(used(9));
  EXPECT_TRUE(eventually([&] {
    const auto devices = watch->newest(monotonic_now()).devices;
    return !devices.empty() && devices[0].used_bytes == 9;
  }));
}

TEST_F(UsageWatchTest, ReadsSoonWhenAsked) {
  const auto watch = start(lazy_);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).readings == 1; }));
  watch->read_soon();
  EXPECT_TRUE(eventually([&] { return watch->newest(monotonic_now()).readings == 2; }));
}

TEST_F(UsageWatchTest, AnErrorLeavesTheFiguresAndTheirAge) {
  script_->set(used(5));
  const auto watch = start(brisk_);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).state == UsageState::current; }));
  script_->set(Error{Errc::device, 999, "nvmlDeviceGetCount"});
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).state == UsageState::failing; }));
  const UsageSnapshot snapshot = watch->newest(monotonic_now());
  EXPECT_EQ(snapshot.error.native, 999);
  EXPECT_EQ(snapshot.devices.at(0).used_bytes, 5u);
  // Much later, a call that happens to be under way looks stalled; the figures are as old in any case.
  EXPECT_GE(watch->newest(monotonic_now() + 1h).age, 1h);
}

TEST_F(UsageWatchTest, AnAbsentSourceIsAskedAgain) {
  script_->set(Error{Errc::not_found, 0, "libnvidia-ml"});
  const auto watch = start(brisk_);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).state == UsageState::absent; }));
  EXPECT_EQ(watch->newest(monotonic_now()).age, never);
  script_->set(used(1));
  EXPECT_TRUE(eventually([&] { return watch->newest(monotonic_now()).state == UsageState::current; }));
}

TEST_F(UsageWatchTest, AHungCallStopsNothingAndIsReported) {
  script_->set(used(5));
  auto watch = start(brisk_);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).readings > 0; }));
  script_->hang(true);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now() + 6s).state == UsageState::stalled; }));
  const UsageSnapshot snapshot = watch->newest(monotonic_now() + 60s);
  EXPECT_EQ(snapshot.state, UsageState::stalled);
  EXPECT_EQ(snapshot.devices.at(0).used_bytes, 5u);
  EXPECT_GE(snapshot.waiting, 59s);
  EXPECT_GE(snapshot.age, snapshot.waiting);
  // The thread is left behind, and ends by itself should its call ever return.
  watch.reset();
  EXPECT_FALSE(script_->is_destroyed());
  script_->hang(false);
  EXPECT_TRUE(eventually([&] { return script_->is_destroyed(); }));
}

TEST_F(UsageWatchTest, AFirstCallThatHangsLeavesNothingToTell) {
  script_->hang(true);
  const auto watch = start(brisk_);
  EXPECT_EQ(watch->newest(monotonic_now()).state, UsageState::starting);
  EXPECT_TRUE(eventually([&] { return watch->newest(monotonic_now() + 6s).state == UsageState::stalled; }));
  EXPECT_EQ(watch->newest(monotonic_now()).age, never);
  script_->hang(false);
  EXPECT_TRUE(eventually([&] { return watch->newest(monotonic_now()).state == UsageState::current; }));
}

TEST_F(UsageWatchTest, StopsAtOnceBetweenTwoCalls) {
  auto watch = start(lazy_);
  ASSERT_TRUE(eventually([&] { return watch->newest(monotonic_now()).readings == 1; }));
  watch.reset();
  EXPECT_TRUE(eventually([&] { return script_->is_destroyed(); }));
}

}  // namespace
}  // namespace penstock::test
