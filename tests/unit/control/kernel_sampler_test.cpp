// SPDX-License-Identifier: Apache-2.0
// What the sampler makes of scripted probes and literal trees of cgroups.
#include "service/control/kernel_sampler.hpp"

#include <algorithm>
#include <functional>
#include <latch>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "dataplane/base/units.hpp"
#include "service/control/kernel_json.hpp"
#include "service/policy/pressure.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/literal_tree.hpp"
#include "tests/support/scripted_probes.hpp"

namespace penstock {
namespace {

constexpr Nanoseconds start = std::chrono::hours(1);
constexpr std::string_view some_10_s = "some avg10=1.50 avg60=0.00 avg300=0.00 total=10000000\n";
constexpr std::string_view full_4_s = "full avg10=0.00 avg60=0.00 avg300=0.00 total=4000000\n";

std::string both_lines() { return std::string(some_10_s) + std::string(full_4_s); }

class KernelSamplerTest : public testing::Test {
 protected:
  void open() {
    auto probes = std::make_unique<test::ScriptedProbes>();
    probes_ = probes.get();
    KernelSampler::Options options;
    options.root = tree_.path();
    options.alarm = alarm_;
    sampler_ = std::make_unique<KernelSampler>(std::move(probes), std::move(options));
  }
  test::LiteralTree tree_;
  test::ScriptedProbes* probes_ = nullptr;
  std::function<void()> alarm_;
  std::unique_ptr<KernelSampler> sampler_;
};

TEST_F(KernelSamplerTest, ShowsEachFollowedCheckpointUntilItIsForgotten) {
  open();
  sampler_->follow("0123456789ab", 0, nullptr);
  sampler_->follow("ba9876543210", 0, nullptr);
  probes_->files[TrackedFileId{0}].resident_bytes = 4096;
  const KernelStats both = sampler_->sample(start);
  ASSERT_EQ(both.checkpoints.size(), 2u);
  EXPECT_EQ(both.find("0123456789ab")->resident_bytes(), 4096u);
  EXPECT_EQ(both.find("ba9876543210")->resident_bytes(), std::nullopt);
  sampler_->forget("0123456789ab");
  EXPECT_EQ(sampler_->sample(start).find("0123456789ab"), nullptr);
  EXPECT_EQ(probes_->files.size(), 1u);
  // The same one again is tracked once.
  sampler_->follow("ba9876543210", 0, nullptr);
  EXPECT_EQ(probes_->files.size(), 1u);
}

TEST_F(KernelSamplerTest, CountsOfACheckpointBeginWhenItIsOpenedAndNeverFall) {
  open();
  probes_->fresh.traffic = FileTraffic{.added_bytes = 100};
  sampler_->follow("0123456789ab", 0, nullptr);
  const auto added = [&] {
    return sampler_->sample(start).find("0123456789ab")->sample->traffic->added_bytes;
  };
  EXPECT_EQ(added(), 0u);
  probes_->files[TrackedFileId{0}].traffic->added_bytes = 130;
  EXPECT_EQ(added(), 30u);
  sampler_->forget("0123456789ab");
  sampler_->follow("0123456789ab", 0, nullptr);
  EXPECT_EQ(added(), 30u);
}

TEST_F(KernelSamplerTest, TellsPartsOfATracedFileAFewHoweverManyExtentsItHas) {
  open();
  sampler_->follow("0123456789ab", 0, nullptr);
  std::vector<ExtentSample>& extents = probes_->file_extents[TrackedFileId{0}];
  for (std::uint64_t i = 0; i < 2 * KernelSampler::parts_max + 1; ++i)
    extents.push_back({.resident_bytes = i, .traffic = ExtentTraffic{2 * i, i}, .reclaimed_bytes = 1});
  const auto parts = [this] {
    nlohmann::json json = nlohmann::json::object();
    add_page_cache(json, *sampler_->sample(start).find("0123456789ab"));
    return json.at("page_cache").at("parts");
  };
  EXPECT_EQ(parts().at("part_bytes"), 3 * probes_->bytes_of_extents);
  EXPECT_EQ(parts().at("resident_bytes").size(), 22u);
  EXPECT_EQ(parts().at("resident_bytes")[1], 3 + 4 + 5);
  EXPECT_EQ(parts().at("added_bytes")[1], 24);
  EXPECT_EQ(parts().at("removed_bytes")[21], 63 + 64);
  EXPECT_EQ(parts().at("reclaimed_bytes")[0], 3);
  extents[4].resident_bytes.reset();
  EXPECT_TRUE(parts().at("resident_bytes")[1].is_null());
  extents.resize(2);
  EXPECT_EQ(parts().at("resident_bytes").size(), 2u);
  EXPECT_EQ(parts().at("part_bytes"), probes_->bytes_of_extents);
}

TEST_F(KernelSamplerTest, WithoutCgroupsAndPressureThereAreNoFigures) {
  open();
  const KernelStats stats = sampler_->sample(start);
  EXPECT_FALSE(stats.cgroup);
  for (const PressureFigures& figures : stats.pressure) {
    EXPECT_FALSE(figures.pressure);
    EXPECT_FALSE(figures.events);
  }
  const nlohmann::json json = pressure_json(&stats, std::nullopt);
  EXPECT_TRUE(json.at("level").is_null());
  EXPECT_FALSE(json.contains("machine") || json.contains("cgroup") || json.contains("oom_kills") ||
               json.contains("reclaim"));
}

TEST_F(KernelSamplerTest, ReadsThePressureOfTheMachineTheServiceAndTheTightestAncestor) {
  tree_.write("proc/self/cgroup", "0::/a/b\n");
  tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  tree_.write("proc/pressure/memory", both_lines());
  tree_.write("sys/fs/cgroup/a/memory.max", "1048576\n");
  tree_.write("sys/fs/cgroup/a/memory.current", "1000000\n");
  tree_.write("sys/fs/cgroup/a/memory.stat", "");
  tree_.write("sys/fs/cgroup/a/memory.pressure", both_lines());
  tree_.write("sys/fs/cgroup/a/b/memory.stat", "anon 4096\n");
  tree_.write("sys/fs/cgroup/a/b/memory.pressure", some_10_s);
  open();
  // A trigger's text replaced what a plain file held.
  tree_.write("proc/pressure/memory", both_lines());
  tree_.write("sys/fs/cgroup/a/memory.pressure", both_lines());
  tree_.write("sys/fs/cgroup/a/b/memory.pressure", some_10_s);
  const KernelStats stats = sampler_->sample(start);
  const nlohmann::json json = pressure_json(&stats, GovernorFigures{.level = PressureLevel::some});
  EXPECT_EQ(json.at("machine").at("some").at("seconds"), 10.0);
  EXPECT_EQ(json.at("machine").at("some").at("percent_of_10_seconds"), 1.5);
  EXPECT_EQ(json.at("service").at("some").at("seconds"), 10.0);
  EXPECT_FALSE(json.at("service").contains("full"));
  EXPECT_EQ(json.at("limit").at("full").at("seconds"), 4.0);
  EXPECT_EQ(json.at("cgroup").at("max_bytes"), 1048576);
  EXPECT_EQ(json.at("cgroup").at("headroom_bytes"), 48576);
  EXPECT_EQ(json.at("cgroup").at("anonymous_bytes"), 4096);
}

// As Kubernetes makes them: the limit is that of all pods.
TEST_F(KernelSamplerTest, ASiblingThatWaitsTakesNothingWhileThereIsRoom) {
  const auto stall = [](int seconds) {
    return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(seconds) + "000000\n";
  };
  const std::string pods = "sys/fs/cgroup/kubepods.slice/";
  tree_.write("proc/self/cgroup", "0::/kubepods.slice/pod1\n");
  tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  tree_.write(pods + "memory.max", std::to_string(120 * gib) + "\n");
  tree_.write(pods + "memory.current", std::to_string(10 * gib) + "\n");
  tree_.write(pods + "memory.stat", "");
  tree_.write(pods + "memory.pressure", stall(7));
  tree_.write(pods + "pod1/memory.max", "max\n");
  tree_.write(pods + "pod1/memory.stat", "");
  tree_.write(pods + "pod1/memory.pressure", stall(3));
  open();
  const auto board = sampler_->stalls();
  PressurePolicy policy({.frames_max_bytes = 64 * gib});
  PressureSample sample{.limit_bytes = 120 * gib, .room_bytes = 110 * gib};
  for (int total = 10; total < 20; ++total) {
    // The first ones replace a trigger's text, too.
    tree_.write(pods + "memory.pressure", stall(total));
    tree_.write(pods + "pod1/memory.pressure", stall(3));
    ASSERT_TRUE(eventually([&] {
      const StallsSeen seen = board->read(monotonic_now());
      return seen.own && seen.above && seen.above->totals.some == std::chrono::seconds(total);
    }));
    const StallsSeen seen = board->read(monotonic_now());
    EXPECT_EQ(seen.own->totals.some, std::chrono::seconds(3));
    sample.at = start + std::chrono::seconds(2 * total);
    sample.own = seen.own;
    sample.above = seen.above;
    // As if each had come two seconds after the one before.
    sample.own->at = sample.above->at = sample.at;
    sample.bounds_passed = seen.bounds_passed;
    sample.bounds_passed_above = seen.bounds_passed_above;
    EXPECT_EQ(policy.step(sample).level, PressureLevel::calm);
  }
  EXPECT_EQ(policy.answer().frames_bytes, 64 * gib);
}

TEST_F(KernelSamplerTest, FollowsTheProcessIntoAnotherCgroup) {
  tree_.write("proc/self/cgroup", "0::/a\n");
  tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  for (const char* name : {"a", "b"}) {
    tree_.write("sys/fs/cgroup/" + std::string(name) + "/memory.current", "0\n");
    tree_.write("sys/fs/cgroup/" + std::string(name) + "/memory.stat", "");
  }
  tree_.write("sys/fs/cgroup/a/memory.max", "1000\n");
  tree_.write("sys/fs/cgroup/b/memory.max", "2000\n");
  open();
  EXPECT_EQ(sampler_->sample(start).cgroup->limits.max, 1000u);
  tree_.write("proc/self/cgroup", "0::/b\n");
  EXPECT_EQ(sampler_->sample(start + KernelSampler::outdated_period).cgroup->limits.max, 2000u);
}

TEST_F(KernelSamplerTest, TellsTheServicesOwnReclaimFromAllOther) {
  tree_.write("proc/self/cgroup", "0::/a\n");
  tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  tree_.write("sys/fs/cgroup/a/memory.stat", "");
  open();
  Warnings unheard;
  const CgroupFiles own = CgroupFiles::open(tree_.root().get(), unheard);
  CgroupSample sample;
  sample.id = own.id();
  sample.reclaim[1].bytes = 10;
  sample.oom_kills = 1;
  probes_->cgroups.push_back(sample);
  for (const std::uint64_t other : {std::uint64_t{0}, own.id() + 1}) {
    sample.id = other;
    probes_->cgroups.push_back(sample);
  }
  const KernelStats stats = sampler_->sample(start);
  EXPECT_EQ(stats.reclaim[0].reclaim[1].bytes, 10u);
  EXPECT_EQ(stats.reclaim[1].reclaim[1].bytes, 20u);
  EXPECT_EQ(stats.reclaim[1].oom_kills, 2u);
}

TEST_F(KernelSamplerTest, SaysOnceThatAClientsCgroupIsHiddenAndShowsNothingOfIt) {
  tree_.write("proc/self/cgroup", "0::/\n");
  tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  tree_.write("sys/fs/cgroup/cgroup.events", "populated 1\n");
  tree_.write("sys/fs/cgroup/memory.max", "1000\n");
  tree_.write("sys/fs/cgroup/memory.pressure", some_10_s);
  tree_.write("proc/77/cgroup", "0::/../x\n");
  open();
  const UniqueFd alive(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const std::map<std::uint32_t, ProcessRef> clients{{1, {77, alive.get()}}};
  EXPECT_TRUE(sampler_->sample(start, clients).clients.empty());
  const auto hidden = [](const std::string& line) { return line.find("can't be seen") != line.npos; };
  EXPECT_EQ(std::ranges::count_if(sampler_->warnings(), hidden), 1);
  // Neither at the next look, nor when the service's cgroups were opened anew.
  tree_.write("proc/self/cgroup", "0::/a\n");
  EXPECT_TRUE(sampler_->sample(start + KernelSampler::outdated_period, clients).clients.empty());
  EXPECT_EQ(std::ranges::count_if(sampler_->warnings(), hidden), 0);
}

TEST_F(KernelSamplerTest, CountsHintsByKind) {
  open();
  Hint hint;
  hint.kind = Hint::Kind::oom_kill;
  probes_->send(hint);
  EXPECT_TRUE(eventually([&] { return sampler_->sample(start).hints[2] == 1; }));
  EXPECT_EQ(sampler_->sample(start).hints[0], 0u);
}

// Who reads the recent ones holds their lock, and the governor would wait for it.
TEST_F(KernelSamplerTest, RaisesTheAlarmBeforeItKeepsAHint) {
  std::latch alarmed(1), looked(1);
  alarm_ = [&] {
    alarmed.count_down();
    looked.wait();
  };
  open();
  Hint kill;
  kill.kind = Hint::Kind::oom_kill;
  probes_->send(kill);
  alarmed.wait();
  EXPECT_TRUE(sampler_->sample(start).recent.empty());
  looked.count_down();
  EXPECT_TRUE(eventually([&] { return sampler_->sample(start).recent.size() == 1; }));
}

TEST_F(KernelSamplerTest, TellsWhoWaitedAndWhoWasKilledLately) {
  tree_.write("proc/self/cgroup", "0::/a\n");
  tree_.write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n");
  tree_.write("sys/fs/cgroup/a/memory.stat", "");
  open();
  Warnings unheard;
  Hint stall;
  stall.at = start - std::chrono::seconds(2);
  stall.cgroup = CgroupFiles::open(tree_.root().get(), unheard).id();
  stall.bytes = 4096;
  stall.reclaim = ReclaimKind::memcg;
  stall.duration = std::chrono::milliseconds(1500);
  stall.command = {'a', '\n', '\xff', '"'};
  for (std::uint32_t process = 1; process <= 20; ++process) {
    stall.process = process;
    probes_->send(stall);
  }
  Hint kill;
  kill.kind = Hint::Kind::oom_kill;
  kill.at = start;
  kill.process = 99;
  kill.cgroup = 7;
  kill.command = {'p', 'y'};
  probes_->send(kill);
  Hint reclaimed;
  reclaimed.kind = Hint::Kind::reclaimed;
  probes_->send(reclaimed);
  ASSERT_TRUE(eventually([&] { return sampler_->sample(start).hints[0] == 1; }));
  KernelStats stats = sampler_->sample(start);
  stats.wall_at = std::chrono::system_clock::time_point(std::chrono::seconds(60));
  const nlohmann::json recent = pressure_json(&stats, std::nullopt).at("recent");
  ASSERT_EQ(recent.size(), 16u);
  EXPECT_EQ(recent[0].at("process"), 6);
  const nlohmann::json expected_stall{{"time", "1970-01-01T00:00:58.000Z"},
                                      {"kind", "stall"},
                                      {"process", 20},
                                      {"command", R"(a\u000a\xff\")"},
                                      {"cgroup", stall.cgroup},
                                      {"owner", "service"},
                                      {"reclaim", "memcg"},
                                      {"seconds", 1.5},
                                      {"bytes", 4096}};
  EXPECT_EQ(recent[14], expected_stall) << recent[14].dump();
  const nlohmann::json expected_kill{{"time", "1970-01-01T00:01:00.000Z"},
                                     {"kind", "oom_kill"},
                                     {"process", 99},
                                     {"command", "py"},
                                     {"cgroup", 7},
                                     {"owner", "others"}};
  EXPECT_EQ(recent[15], expected_kill) << recent[15].dump();
  // Once, however often somebody looks.
  (void)sampler_->sample(start);
  EXPECT_EQ(std::ranges::count(sampler_->warnings(), R"(oom_kill process=99 command="py" cgroup=7)"), 1);
}

TEST(RecentHints, LogsFewKillsAMinuteAndCountsTheRest) {
  RecentHints recent;
  Hint kill;
  kill.kind = Hint::Kind::oom_kill;
  for (int i = 0; i < 20; ++i) recent.add(kill);
  EXPECT_EQ(recent.take_kill_lines(start).size(), RecentHints::lines_max);
  recent.add(kill);
  EXPECT_TRUE(recent.take_kill_lines(start + RecentHints::lines_period - Nanoseconds(1)).empty());
  const std::vector<std::string> later = recent.take_kill_lines(start + RecentHints::lines_period);
  EXPECT_EQ(later, std::vector<std::string>{"oom_kill not_logged=11"});
  EXPECT_TRUE(recent.take_kill_lines(start + 2 * RecentHints::lines_period).empty());
}

TEST(KernelJson, AFileThatIsNotFollowedSaysWhy) {
  const PageCacheFigures figures{.checkpoint = "0123456789ab", .sample = std::nullopt, .why = "no room"};
  nlohmann::json json = nlohmann::json::object();
  add_page_cache(json, figures);
  EXPECT_FALSE(json.contains("page_cache_bytes"));
  EXPECT_EQ(json.at("page_cache").at("why"), "no room");
  EXPECT_FALSE(json.at("page_cache").contains("added_bytes"));
}

}  // namespace
}  // namespace penstock
