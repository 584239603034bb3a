// SPDX-License-Identifier: Apache-2.0
#include "exporters/device_families.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>

namespace penstock {
namespace {

// In the order of EvictReason.
constexpr std::array<std::string_view, 7> evict_reason_names = {
    "fault", "prefetch", "budget", "request", "session_closed", "table_closed", "released"};
static_assert(evict_reason_names.size() <= std::tuple_size_v<decltype(PagerStats::evictions)>);

template <std::size_t Count>
constexpr std::array<double, Count> doubling_bounds(double first) {
  std::array<double, Count> bounds{};
  for (double& bound : bounds) {
    bound = first;
    first *= 2;
  }
  return bounds;
}
constexpr auto latency_bounds = doubling_bounds<PagerStats::latency_buckets - 1>(1e-6);
constexpr auto wait_bounds = doubling_bounds<WaitHistogram::buckets - 1>(1e-3);

std::uint64_t value_of(const PagerStats::Figure& figure) { return figure.load(std::memory_order_relaxed); }

void add_pager(FamilySet& set, std::string_view device, const PagerStats& pager) {
  const auto gauge = [&](Family family, const PagerStats::Figure& figure) {
    set.add(family, {{"device", device}}, value_of(figure));
  };
  gauge(Family::capacity_bytes, pager.capacity_bytes);
  set.add(Family::budget_bytes, {{"pool", device}}, value_of(pager.budget_bytes));
  gauge(Family::used_bytes, pager.used_bytes);
  gauge(Family::resident_bytes, pager.resident_bytes);
  gauge(Family::private_bytes, pager.private_bytes);
  gauge(Family::pinned_bytes, pager.pinned_bytes);
  gauge(Family::stuck_bytes, pager.stuck_bytes);
  constexpr std::array<const char*, 4> residencies = {"absent", "loading", "resident", "evicting"};
  for (std::size_t index = 0; index < residencies.size(); ++index) {
    set.add(Family::pages, {{"device", device}, {"residency", residencies[index]}},
            value_of(pager.pages[index]));
  }
  gauge(Family::device_sessions, pager.sessions);
  gauge(Family::device_tables, pager.tables);
  gauge(Family::frames_ready, pager.frames_ready);
  gauge(Family::refaults, pager.refaults);
  gauge(Family::corrupt_pages, pager.corrupt_pages);
  gauge(Family::scrubbed_pages, pager.scrubbed_pages);
  set.add(Family::faults, {{"device", device}, {"kind", "minor"}}, value_of(pager.minor_faults));
  set.add(Family::faults, {{"device", device}, {"kind", "major"}}, value_of(pager.major_faults));
  set.add(Family::faults, {{"device", device}, {"kind", "offloaded"}}, value_of(pager.offloaded));
  for (std::size_t index = 0; index < evict_reason_names.size(); ++index) {
    set.add(Family::evictions, {{"device", device}, {"reason", evict_reason_names[index]}},
            value_of(pager.evictions[index]));
  }
  std::array<std::uint64_t, PagerStats::latency_buckets> latency{};
  for (std::size_t index = 0; index < latency.size(); ++index)
    latency[index] = value_of(pager.fault_latency[index]);
  set.add_histogram(Family::fault_latency, {{"device", device}}, latency, latency_bounds,
                    value_of(pager.fault_latency_sum_ns));
}

// Each device reads with a ring of its own; readers' families are the node's.
struct ReaderSums {
  std::uint64_t direct_bytes = 0, cached_bytes = 0, errors = 0, short_reads = 0;
  std::uint64_t slots_free = 0, slots_busy = 0, ring_bytes = 0;

  void add(const PagerStats& pager) {
    direct_bytes += value_of(pager.direct_bytes);
    cached_bytes += value_of(pager.cached_bytes);
    errors += value_of(pager.read_errors);
    short_reads += value_of(pager.short_reads);
    slots_free += value_of(pager.slots_free);
    slots_busy += value_of(pager.slots_busy);
    ring_bytes += value_of(pager.ring_bytes);
  }
  void show(FamilySet& set) const {
    set.add(Family::read_bytes, {{"path", "direct"}}, direct_bytes);
    set.add(Family::read_bytes, {{"path", "cached"}}, cached_bytes);
    set.add(Family::read_errors, {{"kind", "io_error"}}, errors);
    set.add(Family::short_reads, {}, short_reads);
    set.add(Family::staging_slots, {{"state", "free"}}, slots_free);
    set.add(Family::staging_slots, {{"state", "busy"}}, slots_busy);
    set.add(Family::staging_bytes, {}, ring_bytes);
  }
};

void add_ledger(FamilySet& set, std::string_view device, const LedgerFigures& ledger) {
  set.add(Family::booked_bytes, {{"device", device}, {"kind", "weights"}}, ledger.booked_weights_bytes);
  set.add(Family::booked_bytes, {{"device", device}, {"kind", "work"}}, ledger.booked_work_bytes);
  if (ledger.foreign_bytes) set.add(Family::foreign_bytes, {{"device", device}}, *ledger.foreign_bytes);
  set.add(Family::headroom_bytes, {{"device", device}}, ledger.headroom_bytes);
  set.add(Family::admissions_waiting, {{"device", device}}, ledger.waiting);
  set.add(Family::grants, {{"device", device}}, ledger.grants);
}

void add_usage(FamilySet& set, std::string_view device, const GpuUsageStats& usage) {
  // Without a reading there is nothing that could have an age.
  if (!usage.used_bytes) return;
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(usage.age).count();
  set.add(Family::usage_age, {{"device", device}}, static_cast<std::uint64_t>(age));
  if (usage.ghost_bytes) set.add(Family::ghost_bytes, {{"device", device}}, *usage.ghost_bytes);
}

struct AdmissionSums {
  AdmissionCounts sums;

  void add(const AdmissionCounts& counts) {
    sums.admitted_full += counts.admitted_full;
    sums.admitted_partial += counts.admitted_partial;
    sums.queued += counts.queued;
    sums.cancelled += counts.cancelled;
    for (std::size_t index = 0; index < failure_kinds; ++index) sums.refused[index] += counts.refused[index];
    for (std::size_t index = 0; index < WaitHistogram::buckets; ++index)
      sums.wait.counts[index] += counts.wait.counts[index];
    sums.wait.sum_ns += counts.wait.sum_ns;
  }

  void show(FamilySet& set) const {
    const auto count = [&](std::string_view decision, std::string_view reason, std::uint64_t value) {
      set.add(Family::admissions, {{"decision", decision}, {"reason", reason}}, value);
    };
    count("admitted", "full", sums.admitted_full);
    count("admitted", "partial", sums.admitted_partial);
    count("queued", "room", sums.queued);
    count("cancelled", "client", sums.cancelled);
    constexpr std::array always = {
        FailureKind::never_fits, FailureKind::foreign_usage,    FailureKind::headroom,
        FailureKind::quota,      FailureKind::pinned,           FailureKind::fd_limit,
        FailureKind::deadline,   FailureKind::device_unhealthy, FailureKind::revoke_timeout};
    for (std::size_t index = 0; index < failure_kinds; ++index) {
      // The usual reasons are there from the start, so that a rate over them is never missing.
      const FailureKind kind = static_cast<FailureKind>(index);
      const bool shown =
          sums.refused[index] > 0 || std::find(always.begin(), always.end(), kind) != always.end();
      if (shown) count("refused", failure_kind_name(kind), sums.refused[index]);
    }
    set.add_histogram(Family::admission_wait, {}, sums.wait.counts, wait_bounds, sums.wait.sum_ns);
  }
};

}  // namespace

void add_devices(FamilySet& set, std::span<const DeviceSource> devices) {
  ReaderSums readers;
  AdmissionSums admissions;
  bool any_pager = false, any_ledger = false;
  for (const DeviceSource& device : devices) {
    const bool has_pager = device.pager != nullptr;
    set.add(Family::collector_success, {{"collector", "pager"}, {"device", device.id}}, has_pager ? 1 : 0);
    if (has_pager) {
      add_pager(set, device.id, *device.pager);
      readers.add(*device.pager);
      any_pager = true;
    }
    if (device.usage) {
      const std::optional<GpuUsageStats> usage = device.usage();
      const bool is_current = usage && usage->state == "current";
      set.add(Family::collector_success, {{"collector", "usage"}, {"device", device.id}}, is_current ? 1 : 0);
      if (usage) add_usage(set, device.id, *usage);
    }
    if (!device.ledger) continue;
    const std::optional<LedgerFigures> ledger = device.ledger();
    set.add(Family::collector_success, {{"collector", "ledger"}, {"device", device.id}}, ledger ? 1 : 0);
    if (!ledger) continue;
    add_ledger(set, device.id, *ledger);
    admissions.add(ledger->admissions);
    any_ledger = true;
  }
  if (any_pager) readers.show(set);
  if (any_ledger) admissions.show(set);
}

}  // namespace penstock
