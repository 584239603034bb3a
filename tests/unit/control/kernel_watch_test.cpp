// SPDX-License-Identifier: Apache-2.0
// The thread of the probes: what it follows, and that nobody waits for it.
#include "service/control/kernel_watch.hpp"

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

#include "tests/support/eventually.hpp"
#include "tests/support/hanging_client.hpp"
#include "tests/support/literal_tree.hpp"
#include "tests/support/scripted_probes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

// Its first track() waits until the test lets it go, as on a mount whose server is gone.
class HangingProbes final : public ProbeSet {
 public:
  HangingProbes(std::latch& entered, std::latch& hang) : entered_(entered), hang_(hang) {}
  std::vector<ProbeReport> report() override { return below_.report(); }
  ProbeLevel level() const override { return below_.level(); }
  Result<Tracking> track(int fd, std::shared_ptr<const void> owner) override {
    entered_.count_down();
    hang_.wait();
    return below_.track(fd, std::move(owner));
  }
  void untrack(TrackedFileId file) override { below_.untrack(file); }
  FileSample sample(TrackedFileId file) override { return below_.sample(file); }
  std::size_t sample_extents(TrackedFileId file, std::span<ExtentSample> into) override {
    return below_.sample_extents(file, into);
  }
  std::uint64_t extent_bytes(TrackedFileId file) const override { return below_.extent_bytes(file); }
  std::size_t extents(TrackedFileId file) const override { return below_.extents(file); }
  std::vector<CgroupSample> sample_cgroups() override { return below_.sample_cgroups(); }
  MachineSample sample_machine() override { return below_.sample_machine(); }
  void reconcile() override { below_.reconcile(); }
  void look_for_unlinked() override { below_.look_for_unlinked(); }
  int hint_fd() const override { return below_.hint_fd(); }
  void consume_hints(const std::function<void(const Hint&)>& take) override { below_.consume_hints(take); }

 private:
  std::latch& entered_;
  std::latch& hang_;
  test::ScriptedProbes below_;
};

class KernelWatchTest : public testing::Test {
 protected:
  std::shared_ptr<const CheckpointFile> file() const {
    return *CheckpointFile::open(folder_.write("m", std::string_view("content")).string());
  }
  KernelWatch::Options options() const {
    KernelWatch::Options options;
    options.root = tree_.path();
    options.remedy = "a remedy";
    return options;
  }
  test::TemporaryFolder folder_;
  test::LiteralTree tree_;
};

TEST_F(KernelWatchTest, WhatIsFollowedIsInASnapshotSoonAndGoneWhenForgotten) {
  KernelWatch watch(std::make_unique<test::ScriptedProbes>(), options());
  watch.follow("0123456789ab", "/m", file());
  const auto follows = [&] {
    const auto stats = watch.stats();
    return stats && stats->find("0123456789ab") != nullptr;
  };
  EXPECT_TRUE(eventually(follows));
  EXPECT_EQ(watch.stats()->remedy, "a remedy");
  watch.forget("0123456789ab");
  EXPECT_TRUE(eventually([&] { return !follows(); }));
  EXPECT_EQ(watch.stop(std::chrono::seconds(20)), "");
  EXPECT_EQ(watch.stop(Nanoseconds(0)), "");
}

TEST_F(KernelWatchTest, AFileThatHangsKeepsNobodyAndIsNamed) {
  std::latch entered(1), hang(1);
  std::weak_ptr<const CheckpointFile> held;
  {
    KernelWatch watch(std::make_unique<HangingProbes>(entered, hang), options());
    auto own = file();
    held = own;
    watch.follow("0123456789ab", "/hung/m", std::move(own));
    entered.wait();
    EXPECT_EQ(watch.stop(std::chrono::milliseconds(1)), "/hung/m");
    watch.forget("0123456789ab");
    // Its descriptor is still used by the call that hangs.
    EXPECT_FALSE(held.expired());
    hang.count_down();
    EXPECT_EQ(watch.stop(std::chrono::seconds(20)), "");
  }
  EXPECT_TRUE(eventually([&] { return held.expired(); }));
}

constexpr const char* pressure_file = "sys/fs/cgroup/a/memory.pressure";

// In a cgroup of v2 whose tasks have not waited yet.
class KernelWatchOfStalls : public KernelWatchTest {
 protected:
  KernelWatchOfStalls() {
    tree_.write("proc/self/cgroup", "0::/a\n");
    tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
    write_stalls(0);
  }
  void write_stalls(std::int64_t seconds) const {
    tree_.write(pressure_file, test::stalls_text(seconds * 1'000'000));
  }
  // Again and again: the text of a trigger may replace what is written, since this is a plain file.
  bool stalls_are_seen(const KernelWatch& watch) {
    const StallsSeen before = watch.stalls();
    return eventually([&] {
      write_stalls(++seconds_);
      const StallsSeen now = watch.stalls();
      if (!before.own || !now.own) return !before.own && now.own.has_value();
      return now.own->totals.some > before.own->totals.some && now.own->totals.full > before.own->totals.full;
    });
  }

 private:
  std::int64_t seconds_ = 0;
};

TEST_F(KernelWatchOfStalls, AClientWhoseMemoryIsSlowToReadDelaysNeitherThemNorSnapshots) {
  test::HangingClient client;
  KernelWatch::Options slow = options();
  slow.period = std::chrono::milliseconds(1);
  slow.read_process = [&](const ProcessRef&) { return client.read(); };
  KernelWatch watch(std::make_unique<test::ScriptedProbes>(), slow);
  client.be_followed_by(watch);
  EXPECT_TRUE(stalls_are_seen(watch));
  EXPECT_TRUE(eventually([&] { return watch.stats() != nullptr; }));
  const Nanoseconds before = watch.stats()->at;
  EXPECT_TRUE(eventually([&] { return watch.stats()->at > before; }));
  EXPECT_TRUE(watch.stats()->processes.empty());
  client.let_go();
  EXPECT_TRUE(eventually([&] { return watch.stats()->processes.size() == 1; }));
}

TEST_F(KernelWatchOfStalls, AFileThatHangsDoesNotDelayThem) {
  std::latch entered(1), hang(1);
  KernelWatch watch(std::make_unique<HangingProbes>(entered, hang), options());
  watch.follow("0123456789ab", "/hung/m", file());
  entered.wait();
  EXPECT_TRUE(stalls_are_seen(watch));
  hang.count_down();
}

TEST_F(KernelWatchTest, AnOldSnapshotIsNone) {
  KernelWatch::Options old = options();
  old.age_max = Nanoseconds(0);
  KernelWatch watch(std::make_unique<test::ScriptedProbes>(), old);
  watch.follow("0123456789ab", "/m", file());
  EXPECT_EQ(watch.stats(), nullptr);
}

}  // namespace
}  // namespace penstock
