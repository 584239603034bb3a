// SPDX-License-Identifier: Apache-2.0
// The one table of all metric families. A family without samples is not shown at all.
#pragma once

#include <cstdint>
#include <string_view>

#include <prometheus/metric_type.h>

namespace penstock {

enum class Family : std::uint8_t {
  build_info,
  collector_success,
  clients,
  sessions,
  admissions,
  admission_wait,
  admissions_waiting,
  grants,
  locked_host_bytes,
  budget_bytes,
  pressure_level,
  pressure_room,
  pressure_excess,
  budget_changes,
  checkpoint_bytes,
  capacity_bytes,
  used_bytes,
  resident_bytes,
  private_bytes,
  pinned_bytes,
  stuck_bytes,
  pages,
  booked_bytes,
  foreign_bytes,
  ghost_bytes,
  usage_age,
  headroom_bytes,
  device_sessions,
  device_tables,
  frames_ready,
  faults,
  fault_latency,
  refaults,
  evictions,
  corrupt_pages,
  scrubbed_pages,
  reader_info,
  read_bytes,
  read_errors,
  short_reads,
  staging_slots,
  staging_bytes,
  tier_bytes,
  tier_reads,
  tier_read_bytes,
  tier_evictions,
  tier_refused,
  probe_level,
  probe_attached,
  probe_missed_runs,
  probe_records_lost,
  probe_corrections,
  probe_hints,
  page_cache_level,
  page_cache_added,
  page_cache_removed,
  page_cache_refaulted,
  page_cache_faults,
  page_cache_fault_seconds,
  major_fault_latency,
  reclaim_duration,
  reclaim_seconds,
  reclaimed_bytes,
  kswapd_wakes,
  oom_kills,
  pressure_available,
  cgroup_pressure,
  cgroup_pressure_events,
  cgroup_headroom,
  cgroup_limit,
  cgroup_limit_hits,
  cgroup_used,
};
inline constexpr std::size_t families = static_cast<std::size_t>(Family::cgroup_used) + 1;

struct FamilyEntry {
  Family family;
  std::string_view name;  // Without the prefix.
  prometheus::MetricType type;
  std::string_view help;  // One sentence; names the labels' values where they are not obvious.
};

const FamilyEntry& entry_of(Family family);
inline constexpr std::string_view metric_prefix = "penstock_";

}  // namespace penstock
