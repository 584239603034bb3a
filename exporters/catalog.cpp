// SPDX-License-Identifier: Apache-2.0
#include "exporters/catalog.hpp"

#include <array>

namespace penstock {
namespace {

using enum prometheus::MetricType;

constexpr std::array<FamilyEntry, families> entries = {{
    {Family::build_info, "build_info", Gauge, "Always 1; the labels tell what runs."},
    {Family::collector_success, "collector_success", Gauge,
     "1 where the figures of a source could be read, 0 where they are missing from this page."},
    {Family::clients, "clients", Gauge, "Connected clients."},
    {Family::sessions, "sessions_total", Counter, "Sessions that have ended, by how."},
    {Family::admissions, "admissions_total", Counter,
     "Decisions about demands: admitted (full or partial), queued, cancelled, refused (by reason)."},
    {Family::admission_wait, "admission_wait_seconds", Histogram,
     "Time from a demand to its admission or refusal."},
    {Family::admissions_waiting, "admissions_waiting", Gauge, "Demands that wait now."},
    {Family::grants, "grants", Gauge, "Admitted demands that have not been released."},
    {Family::locked_host_bytes, "locked_host_bytes", Gauge,
     "Locked host memory in use: host buffers of all clients, and the pinned host tier."},
    {Family::budget_bytes, "budget_bytes", Gauge,
     "What may be used now: by the pages of a device, by host buffers and the pinned host tier together "
     "(locked_host), or by the tier alone (host_tier)."},
    {Family::pressure_level, "pressure_level", Gauge,
     "Pressure on host memory as the governor sees it: 0 calm, 1 some, 2 full."},
    {Family::pressure_room, "pressure_room_bytes", Gauge,
     "Left below the tightest memory limit at the governor's last look; file cache counts as left."},
    {Family::pressure_excess, "pressure_excess_bytes", Gauge,
     "Missing to the governor's high line, and pinned or held by clients."},
    {Family::budget_changes, "budget_changes_total", Counter,
     "Times that pressure lowered (direction down) or its end raised (up) what pages in host memory may "
     "use."},
    {Family::checkpoint_bytes, "checkpoint_bytes", Gauge,
     "Bytes of a checkpoint by place: device, locked_host, page_cache. Surplus checkpoints are summed up as "
     "other."},
    {Family::capacity_bytes, "capacity_bytes", Gauge, "What a device has."},
    {Family::used_bytes, "used_bytes", Gauge, "Pages being created, loading, resident or on their way out."},
    {Family::resident_bytes, "resident_bytes", Gauge, "Pages whose content is usable."},
    {Family::private_bytes, "private_bytes", Gauge, "Pages that belong to one client."},
    {Family::pinned_bytes, "pinned_bytes", Gauge, "Pages in use by some client, each counted once."},
    {Family::stuck_bytes, "stuck_bytes", Gauge,
     "Pages held by clients that did not answer a revoke in time."},
    {Family::pages, "pages", Gauge, "Pages of open tables: absent, loading, resident, evicting."},
    {Family::booked_bytes, "booked_bytes", Gauge, "Promised to admitted demands: weights, work."},
    {Family::foreign_bytes, "foreign_bytes", Gauge,
     "Used on a device by others than this service and its clients."},
    {Family::ghost_bytes, "ghost_bytes", Gauge,
     "Used on a device and neither any process's nor this service's: kept by descriptors alone, or not back "
     "yet."},
    {Family::usage_age, "usage_age_seconds", Gauge,
     "How old the reading is that foreign and ghost bytes of a device come from."},
    {Family::headroom_bytes, "headroom_bytes", Gauge, "Kept free on a device on purpose."},
    {Family::device_sessions, "device_sessions", Gauge, "Sessions that use a device."},
    {Family::device_tables, "device_tables", Gauge, "Page tables on a device."},
    {Family::frames_ready, "frames_ready", Gauge, "Frames populated ahead and not in use yet."},
    {Family::faults, "faults_total", Counter,
     "Pages wanted: minor (resident), major (brought), offloaded (refused)."},
    {Family::fault_latency, "fault_latency_seconds", Histogram,
     "Time from a fault to the grant that completes it."},
    {Family::refaults, "refaults_total", Counter, "Major faults on pages that had been evicted."},
    {Family::evictions, "evictions_total", Counter, "Pages taken back, by what they were taken for."},
    {Family::corrupt_pages, "corrupt_pages_total", Counter,
     "Resident pages whose bytes were not those that had been loaded; they were taken back."},
    {Family::scrubbed_pages, "scrubbed_pages_total", Counter, "Checksums taken of resident pages."},
    {Family::reader_info, "reader_info", Gauge, "Always 1; the label tells how files are read."},
    {Family::read_bytes, "read_bytes_total", Counter,
     "Bytes read from checkpoints: direct, or through the page cache."},
    {Family::read_errors, "read_errors_total", Counter, "Reads that failed."},
    {Family::short_reads, "short_reads_total", Counter,
     "Reads that returned less than asked and were continued."},
    {Family::staging_slots, "staging_slots", Gauge, "Slots of the pinned staging ring: free, busy."},
    {Family::staging_bytes, "staging_ring_bytes", Gauge, "Size of the pinned staging ring."},
    {Family::tier_bytes, "tier_bytes", Gauge,
     "Of the pinned host tier: locked memory that is used, and the part of it that GPUs can be filled from "
     "(held)."},
    {Family::tier_reads, "tier_reads_total", Counter,
     "Reads for GPUs: answered by the pinned host tier (hit), or from the file (miss)."},
    {Family::tier_read_bytes, "tier_read_bytes_total", Counter, "Bytes of those reads: hit, miss."},
    {Family::tier_evictions, "tier_evictions_total", Counter,
     "Pages of files that the pinned host tier dropped."},
    {Family::tier_refused, "tier_refused_frames_total", Counter,
     "Frames that the pinned host tier wanted and could not have: no headroom, or no descriptor."},
    {Family::probe_level, "probe_level", Gauge,
     "How well the page cache is known: 0 not, 1 mincore, 2 cachestat, 3 traced, 4 traced with major "
     "faults."},
    {Family::probe_attached, "probe_attached", Gauge, "1 where a probe of the kernel is attached."},
    {Family::probe_missed_runs, "probe_missed_runs_total", Counter,
     "Runs of a probe that the kernel skipped, because it was running already on that CPU."},
    {Family::probe_records_lost, "probe_records_lost_total", Counter,
     "What the probes had no room for: hints (no total depends on them), cgroups, tasks."},
    {Family::probe_corrections, "probe_corrections_total", Counter,
     "Counts of resident pages that did not agree with the kernel's own and were set right."},
    {Family::probe_hints, "probe_hints_total", Counter,
     "Rare events that the probes told of at once: reclaimed, stall, oom_kill."},
    {Family::page_cache_level, "page_cache_level", Gauge,
     "As probe_level, of one checkpoint: its file system may allow less."},
    {Family::page_cache_added, "page_cache_added_bytes_total", Counter,
     "Bytes of a checkpoint that came into the page cache since it is open here."},
    {Family::page_cache_removed, "page_cache_removed_bytes_total", Counter,
     "Bytes of a checkpoint that left the page cache since it is open here, by cause."},
    {Family::page_cache_refaulted, "page_cache_refaulted_bytes_total", Counter,
     "Of the added bytes: those that reclaim had taken before."},
    {Family::page_cache_faults, "page_cache_major_faults_total", Counter,
     "Faults on a checkpoint's mapped pages that had to read them."},
    {Family::page_cache_fault_seconds, "page_cache_fault_seconds_total", Counter,
     "Time that those faults took."},
    {Family::major_fault_latency, "major_fault_latency_seconds", Histogram,
     "Time of major faults on all checkpoints."},
    {Family::reclaim_duration, "reclaim_duration_seconds", Histogram,
     "Time that tasks spent reclaiming, each time: direct, memcg, soft_limit, node."},
    {Family::reclaim_seconds, "reclaim_seconds_total", Counter,
     "Time that tasks spent reclaiming, by their memory cgroup: the service's, others."},
    {Family::reclaimed_bytes, "reclaimed_bytes_total", Counter, "What they reclaimed."},
    {Family::kswapd_wakes, "kswapd_wakes_total", Counter, "Wakes of the kernel's background reclaim."},
    {Family::oom_kills, "oom_kills_total", Counter,
     "Processes killed for lack of memory, by their memory cgroup: the service's, others."},
    {Family::pressure_available, "pressure_available", Gauge,
     "1 where the time that tasks waited for memory is known, 0 where the kernel or its administrator has it "
     "off: "
     "machine, service, limit."},
    {Family::cgroup_pressure, "cgroup_pressure_seconds_total", Counter,
     "Time that some or all tasks waited for memory: machine, service, limit (the ancestor with the tightest "
     "limit)."},
    {Family::cgroup_pressure_events, "cgroup_pressure_events_total", Counter,
     "How often tasks waited longer than the bound within a window."},
    {Family::cgroup_headroom, "cgroup_headroom_bytes", Gauge,
     "Room below the tightest limit of the service's cgroup; page cache counts as free."},
    {Family::cgroup_limit, "cgroup_limit_bytes", Gauge,
     "The tightest limit of the service's cgroup: max (kills), high (throttles)."},
    {Family::cgroup_limit_hits, "cgroup_limit_hits_total", Counter,
     "How often that limit made the cgroup's tasks reclaim: max, high."},
    {Family::cgroup_used, "cgroup_used_bytes", Gauge,
     "Memory of the service's cgroup: anonymous, page_cache, shared_memory, swapped; of the swapped, where "
     "it is known: "
     "compressed (zram, zswap: still in memory), on_disk."},
}};

constexpr bool in_order() {
  for (std::size_t index = 0; index < entries.size(); ++index) {
    if (static_cast<std::size_t>(entries[index].family) != index) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const FamilyEntry& entry_of(Family family) { return entries[static_cast<std::size_t>(family)]; }

}  // namespace penstock
