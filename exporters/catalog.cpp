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
     "Locked host memory in use: host buffers of all clients."},
    {Family::budget_bytes, "budget_bytes", Gauge,
     "What may be used now: by the pages of a device, or of locked host memory (locked_host)."},
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
