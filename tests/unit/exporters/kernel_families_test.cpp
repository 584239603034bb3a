// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <gtest/gtest.h>

#include "exporters/collector.hpp"
#include "tests/unit/exporters/strict_page.hpp"

namespace penstock {
namespace {

using test::StrictPage;

StrictPage page_of(const KernelStats* stats) {
  MetricSources sources;
  sources.version = "1";
  sources.kernel = [stats] {
    return stats != nullptr ? std::make_shared<const KernelStats>(*stats) : nullptr;
  };
  const std::string text = Collector(sources).page();
  StrictPage page(text);
  EXPECT_EQ(page.error(), "") << text;
  return page;
}

TEST(KernelFamilies, WithoutASnapshotAreAbsentAndSaySo) {
  const StrictPage page = page_of(nullptr);
  EXPECT_EQ(page.value("penstock_collector_success{collector=\"kernel\"}"), 0);
  EXPECT_FALSE(page.has("penstock_probe_level"));
}

TEST(KernelFamilies, ShowOnlyTheLevelWhereNothingElseIsMeasured) {
  KernelStats stats;
  stats.probes = {{.name = "page_cache", .why = "EPERM"}};
  stats.checkpoints = {
      {.checkpoint = "0123456789ab",
       .sample = FileSample{.level = ProbeLevel::cachestat, .resident_bytes = 5, .traffic = {}, .faults = {}},
       .why = "EPERM"}};
  const StrictPage page = page_of(&stats);
  EXPECT_EQ(page.value("penstock_probe_level"), 0);
  EXPECT_EQ(page.value("penstock_probe_attached{probe=\"page_cache\"}"), 0);
  EXPECT_EQ(page.value("penstock_page_cache_level{checkpoint=\"0123456789ab\"}"), 2);
  // build_info, collector_success, and those three.
  EXPECT_EQ(page.families().size(), 5u);
}

TEST(KernelFamilies, ShowWhatComesAndGoesByCause) {
  KernelStats stats;
  FileTraffic traffic{.added_bytes = 7, .removed_bytes = {}, .refaulted_bytes = 3};
  traffic.removed_bytes[static_cast<std::size_t>(RemovalCause::fadvise)] = 2;
  FileSample sample{.level = ProbeLevel::traced_and_faults,
                    .resident_bytes = 5,
                    .traffic = traffic,
                    .faults = FaultTraffic{.major_faults = 4, .stall_ns = 1'500'000'000}};
  stats.checkpoints = {{.checkpoint = "0123456789ab", .sample = sample, .why = ""},
                       {.checkpoint = "/a/path", .sample = sample, .why = ""}};
  stats.machine.fault_durations.emplace()[3] = 4;
  stats.machine.fault_ns = 2'000'000'000;
  const StrictPage page = page_of(&stats);
  EXPECT_EQ(page.value("penstock_page_cache_added_bytes_total{checkpoint=\"0123456789ab\"}"), 7);
  EXPECT_EQ(page.value("penstock_page_cache_refaulted_bytes_total{checkpoint=\"0123456789ab\"}"), 3);
  EXPECT_EQ(
      page.value("penstock_page_cache_removed_bytes_total{checkpoint=\"0123456789ab\",cause=\"fadvise\"}"),
      2);
  EXPECT_EQ(
      page.value("penstock_page_cache_removed_bytes_total{checkpoint=\"0123456789ab\",cause=\"kswapd\"}"), 0);
  EXPECT_EQ(page.value("penstock_page_cache_major_faults_total{checkpoint=\"0123456789ab\"}"), 4);
  EXPECT_EQ(page.value("penstock_page_cache_fault_seconds_total{checkpoint=\"0123456789ab\"}"), 1.5);
  EXPECT_EQ(page.value("penstock_page_cache_added_bytes_total{checkpoint=\"/a/path\"}"), std::nullopt);
  EXPECT_EQ(page.value("penstock_major_fault_latency_seconds_count"), 4);
  EXPECT_EQ(page.value("penstock_major_fault_latency_seconds_sum"), 2);
  EXPECT_EQ(page.value("penstock_major_fault_latency_seconds_bucket{le=\"4e-06\"}"), 0);
  EXPECT_EQ(page.value("penstock_major_fault_latency_seconds_bucket{le=\"8e-06\"}"), 4);
}

TEST(KernelFamilies, LeaveOutCausesThatCantBeToldApart) {
  KernelStats stats;
  FileTraffic traffic{.added_bytes = 7, .removed_bytes = {}, .refaulted_bytes = 3};
  traffic.untold.set(static_cast<std::size_t>(RemovalCause::memcg_limit));
  stats.checkpoints = {
      {.checkpoint = "0123456789ab",
       .sample =
           FileSample{.level = ProbeLevel::traced, .resident_bytes = 5, .traffic = traffic, .faults = {}},
       .why = ""}};
  const StrictPage page = page_of(&stats);
  const auto removed = [&](const char* cause) {
    return page.value("penstock_page_cache_removed_bytes_total{checkpoint=\"0123456789ab\",cause=\"" +
                      std::string(cause) + "\"}");
  };
  EXPECT_EQ(removed("memcg_limit"), std::nullopt);
  EXPECT_EQ(removed("kswapd"), 0);
}

TEST(KernelFamilies, AreBoundedByTheCheckpointsThatAreShown) {
  KernelStats stats;
  for (int index = 0; index < 300; ++index) {
    char id[16];
    std::snprintf(id, sizeof(id), "%012x", index);
    stats.checkpoints.push_back({.checkpoint = id, .sample = FileSample{}, .why = ""});
  }
  const StrictPage page = page_of(&stats);
  EXPECT_EQ(page.families().at("penstock_page_cache_level").samples.size(), checkpoint_labels_max);
}

TEST(KernelFamilies, ShowReclaimKillsAndPressureWhereTheyAreMeasured) {
  KernelStats stats;
  stats.machine.oom_kills = 3;
  stats.machine.kswapd_wakes = 9;
  stats.machine.reclaim_durations[1].emplace()[0] = 2;
  stats.reclaim[0].reclaim[1] = {.episodes = 1, .ns = 500'000'000, .bytes = 4096, .longest_ns = 0};
  stats.reclaim[1].reclaim[1] = {.episodes = 1, .ns = 250'000'000, .bytes = 8192, .longest_ns = 0};
  stats.reclaim[1].oom_kills = 3;
  stats.pressure[1] = {.pressure = Pressure{.some = PressureLine{0, std::chrono::seconds(2)}, .full = {}},
                       .events = 6,
                       .by_trigger = true};
  stats.cgroup.emplace().limits.headroom = 77;
  stats.cgroup->use.swapped = 50;
  stats.cgroup->use.compressed = 20;
  const StrictPage page = page_of(&stats);
  EXPECT_EQ(page.value("penstock_oom_kills_total{cgroup=\"service\"}"), 0);
  EXPECT_EQ(page.value("penstock_oom_kills_total{cgroup=\"others\"}"), 3);
  EXPECT_EQ(page.value("penstock_kswapd_wakes_total"), 9);
  EXPECT_EQ(page.value("penstock_reclaimed_bytes_total{cgroup=\"service\",kind=\"memcg\"}"), 4096);
  EXPECT_EQ(page.value("penstock_reclaimed_bytes_total{cgroup=\"service\",kind=\"direct\"}"), std::nullopt);
  EXPECT_EQ(page.value("penstock_reclaim_duration_seconds_sum{kind=\"memcg\"}"), 0.75);
  EXPECT_EQ(page.value("penstock_cgroup_pressure_seconds_total{cgroup=\"service\",kind=\"some\"}"), 2);
  EXPECT_EQ(page.value("penstock_cgroup_pressure_seconds_total{cgroup=\"service\",kind=\"full\"}"),
            std::nullopt);
  EXPECT_EQ(page.value("penstock_cgroup_pressure_events_total{cgroup=\"service\"}"), 6);
  EXPECT_EQ(page.value("penstock_cgroup_headroom_bytes{cgroup=\"service\"}"), 77);
  EXPECT_FALSE(page.has("penstock_cgroup_limit_bytes"));
  EXPECT_EQ(page.value("penstock_cgroup_used_bytes{cgroup=\"service\",kind=\"compressed\"}"), 20);
  EXPECT_EQ(page.value("penstock_cgroup_used_bytes{cgroup=\"service\",kind=\"on_disk\"}"), std::nullopt);
}

// C04: no pressure is another thing than a pressure of 0.
TEST(KernelFamilies, SayOfEachPressureThatIsLookedForWhetherItIsKnown) {
  KernelStats stats;
  stats.pressure[0].looked_for = true;
  stats.pressure[1] = {.pressure = Pressure{.some = PressureLine{}, .full = {}},
                       .events = {},
                       .by_trigger = false,
                       .looked_for = true};
  const StrictPage page = page_of(&stats);
  EXPECT_EQ(page.value("penstock_pressure_available{cgroup=\"machine\"}"), 0);
  EXPECT_EQ(page.value("penstock_pressure_available{cgroup=\"service\"}"), 1);
  EXPECT_EQ(page.value("penstock_pressure_available{cgroup=\"limit\"}"), std::nullopt);
  EXPECT_EQ(page.value("penstock_cgroup_pressure_seconds_total{cgroup=\"machine\",kind=\"some\"}"),
            std::nullopt);
}

}  // namespace
}  // namespace penstock
