// SPDX-License-Identifier: Apache-2.0
#include "exporters/collector.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "dataplane/core/pager_events.hpp"
#include "exporters/catalog.hpp"
#include "tests/unit/exporters/strict_page.hpp"

namespace penstock {
namespace {

using test::StrictPage;

StrictPage page_of(const MetricSources& sources) {
  const std::string text = Collector(sources).page();
  StrictPage page(text);
  EXPECT_EQ(page.error(), "") << text;
  return page;
}

TEST(MetricCatalog, NamesFollowTheRulesAndDiffer) {
  std::set<std::string_view> names;
  for (std::size_t index = 0; index < families; ++index) {
    const FamilyEntry& entry = entry_of(static_cast<Family>(index));
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(std::ranges::all_of(entry.name, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; }));
    EXPECT_EQ(entry.name.ends_with("_total"), entry.type == prometheus::MetricType::Counter) << entry.name;
    EXPECT_TRUE(entry.help.ends_with('.') && entry.help.find('\n') == std::string_view::npos) << entry.name;
    const bool is_histogram = entry.type == prometheus::MetricType::Histogram;
    EXPECT_TRUE(!is_histogram || entry.name.ends_with("_seconds")) << entry.name;
  }
}

TEST(Collector, WithoutSourcesShowsWhatRuns) {
  const StrictPage page = page_of({.version = "0.1.0", .service = {}, .reader_backend = {}, .devices = {}});
  EXPECT_EQ(page.families().size(), 1u);
  EXPECT_EQ(page.value("penstock_build_info{version=\"0.1.0\"}"), 1);
}

TEST(Collector, ShowsTheServicesFigures) {
  ServiceStats service;
  service.clients = 3;
  service.sessions[static_cast<std::size_t>(SessionOutcome::violated)] = 2;
  service.locked_host_bytes = 5;
  service.locked_host_budget_bytes = 12345678901;
  service.checkpoints = {{.id = "0123456789ab", .place = CheckpointPlace::device, .bytes = 7},
                         {.id = "0123456789ab", .place = CheckpointPlace::page_cache, .bytes = 8}};
  service.pressure = GovernorFigures{
      .level = PressureLevel::full, .room_bytes = 9, .excess_bytes = 10, .falls = 11, .rises = 12};
  const StrictPage page = page_of({.version = "1",
                                   .service = [&] { return std::optional(service); },
                                   .reader_backend = [] { return std::optional<std::string>("pread"); },
                                   .devices = {}});
  EXPECT_EQ(page.value("penstock_clients"), 3);
  EXPECT_EQ(page.value("penstock_sessions_total{outcome=\"violated\"}"), 2);
  EXPECT_EQ(page.value("penstock_sessions_total{outcome=\"closed\"}"), 0);
  EXPECT_EQ(page.value("penstock_locked_host_bytes"), 5);
  EXPECT_EQ(page.value("penstock_budget_bytes{pool=\"locked_host\"}"), 12345678901.0);
  EXPECT_EQ(page.value("penstock_checkpoint_bytes{checkpoint=\"0123456789ab\",place=\"device\"}"), 7);
  EXPECT_EQ(page.value("penstock_checkpoint_bytes{checkpoint=\"0123456789ab\",place=\"page_cache\"}"), 8);
  EXPECT_EQ(page.value("penstock_reader_info{backend=\"pread\"}"), 1);
  EXPECT_EQ(page.value("penstock_collector_success{collector=\"service\"}"), 1);
  EXPECT_FALSE(page.has("penstock_probe_level"));
  EXPECT_EQ(page.value("penstock_pressure_level"), 2);
  EXPECT_EQ(page.value("penstock_pressure_room_bytes"), 9);
  EXPECT_EQ(page.value("penstock_pressure_excess_bytes"), 10);
  EXPECT_EQ(page.value("penstock_budget_changes_total{direction=\"down\"}"), 11);
  EXPECT_EQ(page.value("penstock_budget_changes_total{direction=\"up\"}"), 12);
}

TEST(Collector, ShowsThePinnedHostTierWhereThereIsOne) {
  MetricSources sources{.version = "1", .service = {}, .reader_backend = {}, .devices = {}};
  EXPECT_FALSE(page_of(sources).has("penstock_tier_evictions_total"));
  sources.tier = [] {
    return std::optional(TierStats{.used_bytes = 8,
                                   .held_bytes = 7,
                                   .budget_bytes = 9,
                                   .hits = 3,
                                   .misses = 4,
                                   .hit_bytes = 30,
                                   .miss_bytes = 40,
                                   .evictions = 2});
  };
  const StrictPage page = page_of(sources);
  EXPECT_EQ(page.value("penstock_budget_bytes{pool=\"host_tier\"}"), 9);
  EXPECT_EQ(page.value("penstock_tier_bytes{state=\"held\"}"), 7);
  EXPECT_EQ(page.value("penstock_tier_bytes{state=\"used\"}"), 8);
  EXPECT_EQ(page.value("penstock_tier_reads_total{result=\"hit\"}"), 3);
  EXPECT_EQ(page.value("penstock_tier_read_bytes_total{result=\"miss\"}"), 40);
  EXPECT_EQ(page.value("penstock_tier_evictions_total"), 2);
}

TEST(Collector, BoundsTheLabelsOfCheckpoints) {
  ServiceStats service;
  for (int index = 0; index < 1000; ++index) {
    char id[16];
    std::snprintf(id, sizeof(id), "%012x", index);
    service.checkpoints.push_back({.id = id, .place = CheckpointPlace::device, .bytes = 1});
  }
  service.checkpoints.push_back(
      {.id = "/models/secret.safetensors", .place = CheckpointPlace::device, .bytes = 5});
  const StrictPage page = page_of({.version = "1",
                                   .service = [&] { return std::optional(service); },
                                   .reader_backend = {},
                                   .devices = {}});
  EXPECT_EQ(page.families().at("penstock_checkpoint_bytes").samples.size(), checkpoint_labels_max + 1);
  EXPECT_EQ(page.value("penstock_checkpoint_bytes{checkpoint=\"other\",place=\"device\"}"), 1000 - 256 + 5);
}

TEST(Collector, LeavesOutWhatIsUnavailableAndSaysSo) {
  const StrictPage page = page_of({.version = "1",
                                   .service = [] { return std::optional<ServiceStats>(); },
                                   .reader_backend = [] { return std::optional<std::string>(); },
                                   .devices = {{.id = "host", .pager = nullptr, .ledger = [] {
                                                  return std::optional<LedgerFigures>();
                                                }}}});
  EXPECT_EQ(page.families().size(), 2u);
  EXPECT_EQ(page.value("penstock_collector_success{collector=\"service\"}"), 0);
  EXPECT_EQ(page.value("penstock_collector_success{collector=\"reader\"}"), 0);
  EXPECT_EQ(page.value("penstock_collector_success{collector=\"pager\",device=\"host\"}"), 0);
  EXPECT_EQ(page.value("penstock_collector_success{collector=\"ledger\",device=\"host\"}"), 0);
}

TEST(Collector, ShowsEachFigureOfADevice) {
  PagerStats pager;
  pager.capacity_bytes = 1;
  pager.budget_bytes = 2;
  pager.used_bytes = 3;
  pager.resident_bytes = 4;
  pager.private_bytes = 5;
  pager.pinned_bytes = 6;
  pager.stuck_bytes = 7;
  for (std::size_t index = 0; index < 4; ++index) pager.pages[index] = 30 + index;
  pager.minor_faults = 8;
  pager.major_faults = 9;
  pager.refaults = 10;
  pager.offloaded = 11;
  pager.evictions[static_cast<std::size_t>(EvictReason::released)] = 12;
  pager.direct_bytes = 13;
  pager.cached_bytes = 14;
  pager.short_reads = 15;
  pager.read_errors = 16;
  pager.slots_free = 17;
  pager.slots_busy = 18;
  pager.ring_bytes = 19;
  pager.sessions = 20;
  pager.tables = 21;
  pager.frames_ready = 22;
  pager.corrupt_pages = 23;
  pager.scrubbed_pages = 24;
  const std::map<std::string, double> wanted = {
      {"penstock_capacity_bytes{device=\"host\"}", 1},
      {"penstock_budget_bytes{pool=\"host\"}", 2},
      {"penstock_used_bytes{device=\"host\"}", 3},
      {"penstock_resident_bytes{device=\"host\"}", 4},
      {"penstock_private_bytes{device=\"host\"}", 5},
      {"penstock_pinned_bytes{device=\"host\"}", 6},
      {"penstock_stuck_bytes{device=\"host\"}", 7},
      {"penstock_pages{device=\"host\",residency=\"absent\"}", 30},
      {"penstock_pages{device=\"host\",residency=\"loading\"}", 31},
      {"penstock_pages{device=\"host\",residency=\"resident\"}", 32},
      {"penstock_pages{device=\"host\",residency=\"evicting\"}", 33},
      {"penstock_faults_total{device=\"host\",kind=\"minor\"}", 8},
      {"penstock_faults_total{device=\"host\",kind=\"major\"}", 9},
      {"penstock_refaults_total{device=\"host\"}", 10},
      {"penstock_faults_total{device=\"host\",kind=\"offloaded\"}", 11},
      {"penstock_evictions_total{device=\"host\",reason=\"released\"}", 12},
      {"penstock_evictions_total{device=\"host\",reason=\"fault\"}", 0},
      {"penstock_read_bytes_total{path=\"direct\"}", 26},
      {"penstock_read_bytes_total{path=\"cached\"}", 14},
      {"penstock_short_reads_total", 15},
      {"penstock_read_errors_total{kind=\"io_error\"}", 16},
      {"penstock_staging_slots{state=\"free\"}", 17},
      {"penstock_staging_slots{state=\"busy\"}", 18},
      {"penstock_staging_ring_bytes", 19},
      {"penstock_device_sessions{device=\"host\"}", 20},
      {"penstock_device_tables{device=\"host\"}", 21},
      {"penstock_frames_ready{device=\"host\"}", 22},
      {"penstock_corrupt_pages_total{device=\"host\"}", 23},
      {"penstock_scrubbed_pages_total{device=\"host\"}", 24},
      {"penstock_collector_success{collector=\"pager\",device=\"cuda-12345678\"}", 1},
  };
  PagerStats second;
  second.direct_bytes = 13;
  const StrictPage page = page_of({.version = "1",
                                   .service = {},
                                   .reader_backend = {},
                                   .devices = {{.id = "host", .pager = &pager, .ledger = {}},
                                               {.id = "cuda-12345678", .pager = &second, .ledger = {}}}});
  for (const auto& [series, value] : wanted) EXPECT_EQ(page.value(series), value) << series;
  EXPECT_FALSE(page.has("penstock_booked_bytes"));
  EXPECT_FALSE(page.has("penstock_admissions_total"));
}

TEST(Collector, ShowsWhatIsKnownOfTheUseByOthersAndHowOldThatIs) {
  GpuUsageStats usage;
  usage.state = "current";
  usage.age = std::chrono::milliseconds(3900);
  usage.used_bytes = 5;
  usage.ghost_bytes = 6;
  const auto page_now = [&] {
    return page_of({.version = "1",
                    .service = {},
                    .reader_backend = {},
                    .devices = {{.id = "cuda-12345678", .usage = [&] { return std::optional(usage); }}}});
  };
  EXPECT_EQ(page_now().value("penstock_ghost_bytes{device=\"cuda-12345678\"}"), 6);
  EXPECT_EQ(page_now().value("penstock_usage_age_seconds{device=\"cuda-12345678\"}"), 3);
  const std::string success = "penstock_collector_success{collector=\"usage\",device=\"cuda-12345678\"}";
  EXPECT_EQ(page_now().value(success), 1);
  // The figures of a source that hangs stay, and say that they are old.
  usage.state = "stalled";
  EXPECT_TRUE(page_now().has("penstock_ghost_bytes"));
  EXPECT_EQ(page_now().value(success), 0);
  usage.ghost_bytes.reset();
  EXPECT_FALSE(page_now().has("penstock_ghost_bytes"));
  usage.used_bytes.reset();
  EXPECT_FALSE(page_now().has("penstock_usage_age_seconds"));
}

TEST(Collector, AddsUpTheBucketsOfFaultLatencyInSeconds) {
  PagerStats pager;
  pager.fault_latency[0] = 1;   // < 1 us
  pager.fault_latency[5] = 2;   // < 32 us
  pager.fault_latency[23] = 4;  // < 8.4 s
  pager.fault_latency[24] = 8;  // more
  pager.fault_latency_sum_ns = 1'500'000'000;
  const StrictPage page = page_of({.version = "1",
                                   .service = {},
                                   .reader_backend = {},
                                   .devices = {{.id = "host", .pager = &pager, .ledger = {}}}});
  const auto bucket = [&](std::string_view le) {
    return page.value("penstock_fault_latency_seconds_bucket{device=\"host\",le=\"" + std::string(le) +
                      "\"}");
  };
  EXPECT_EQ(bucket("1e-06"), 1);
  EXPECT_EQ(bucket("1.6e-05"), 1);
  EXPECT_EQ(bucket("3.2e-05"), 3);
  EXPECT_EQ(bucket("4.194304"), 3);
  EXPECT_EQ(bucket("8.388608"), 7);
  EXPECT_EQ(bucket("+Inf"), 15);
  EXPECT_EQ(page.value("penstock_fault_latency_seconds_sum{device=\"host\"}"), 1.5);
  EXPECT_EQ(page.value("penstock_fault_latency_seconds_count{device=\"host\"}"), 15);
}

TEST(Collector, ShowsAdmissionsOfAllDevicesTogether) {
  LedgerFigures figures;
  figures.headroom_bytes = 1;
  figures.foreign_bytes = 2;
  figures.booked_weights_bytes = 3;
  figures.booked_work_bytes = 4;
  figures.waiting = 5;
  figures.grants = 6;
  figures.admissions.admitted_full = 7;
  figures.admissions.admitted_partial = 8;
  figures.admissions.queued = 9;
  figures.admissions.refused[static_cast<std::size_t>(FailureKind::quota)] = 10;
  figures.admissions.refused[static_cast<std::size_t>(FailureKind::would_deadlock)] = 11;
  figures.admissions.wait.add(std::chrono::milliseconds(3));
  const auto ledger = [&] { return std::optional(figures); };
  PagerStats pager;
  const StrictPage page = page_of({.version = "1",
                                   .service = {},
                                   .reader_backend = {},
                                   .devices = {{.id = "host", .pager = &pager, .ledger = ledger},
                                               {.id = "cuda-12345678", .pager = &pager, .ledger = ledger}}});
  const std::map<std::string, double> wanted = {
      {"penstock_headroom_bytes{device=\"host\"}", 1},
      {"penstock_foreign_bytes{device=\"host\"}", 2},
      {"penstock_booked_bytes{device=\"host\",kind=\"weights\"}", 3},
      {"penstock_booked_bytes{device=\"host\",kind=\"work\"}", 4},
      {"penstock_admissions_waiting{device=\"host\"}", 5},
      {"penstock_grants{device=\"cuda-12345678\"}", 6},
      {"penstock_admissions_total{decision=\"admitted\",reason=\"full\"}", 14},
      {"penstock_admissions_total{decision=\"admitted\",reason=\"partial\"}", 16},
      {"penstock_admissions_total{decision=\"queued\",reason=\"room\"}", 18},
      {"penstock_admissions_total{decision=\"refused\",reason=\"quota\"}", 20},
      {"penstock_admissions_total{decision=\"refused\",reason=\"would_deadlock\"}", 22},
      {"penstock_admissions_total{decision=\"refused\",reason=\"never_fits\"}", 0},
      {"penstock_admission_wait_seconds_bucket{le=\"0.002\"}", 0},
      {"penstock_admission_wait_seconds_bucket{le=\"0.004\"}", 2},
      {"penstock_admission_wait_seconds_sum", 0.006},
      {"penstock_admission_wait_seconds_count", 2},
  };
  for (const auto& [series, value] : wanted) EXPECT_EQ(page.value(series), value) << series;
  EXPECT_EQ(page.value("penstock_admissions_total{decision=\"refused\",reason=\"html\"}"), std::nullopt);
}

TEST(Collector, NamesEveryReasonOfAnEviction) {
  PagerStats pager;
  for (std::size_t index = 0; index < pager.evictions.size(); ++index) pager.evictions[index] = index + 1;
  const StrictPage page = page_of({.version = "1",
                                   .service = {},
                                   .reader_backend = {},
                                   .devices = {{.id = "host", .pager = &pager, .ledger = {}}}});
  const auto count = [&](std::string_view reason) {
    return page.value("penstock_evictions_total{device=\"host\",reason=\"" + std::string(reason) + "\"}");
  };
  const auto wanted = [](EvictReason reason) { return static_cast<double>(reason) + 1; };
  EXPECT_EQ(count("fault"), wanted(EvictReason::fault));
  EXPECT_EQ(count("prefetch"), wanted(EvictReason::prefetch));
  EXPECT_EQ(count("budget"), wanted(EvictReason::budget));
  EXPECT_EQ(count("request"), wanted(EvictReason::request));
  EXPECT_EQ(count("session_closed"), wanted(EvictReason::session_closed));
  EXPECT_EQ(count("table_closed"), wanted(EvictReason::table_closed));
  EXPECT_EQ(count("released"), wanted(EvictReason::released));
}

}  // namespace
}  // namespace penstock
