// SPDX-License-Identifier: Apache-2.0
#include "exporters/kernel_families.hpp"

#include <span>

#include "exporters/collector.hpp"

namespace penstock {
namespace {

using LatencyBounds = std::array<double, std::tuple_size_v<LatencyHistogram> - 1>;

constexpr LatencyBounds make_latency_bounds() {
  LatencyBounds bounds{};
  double bound = 1e-6;
  for (double& one : bounds) {
    one = bound;
    bound *= 2;
  }
  return bounds;
}
constexpr LatencyBounds latency_bounds = make_latency_bounds();

void add_probes(FamilySet& set, const KernelStats& stats) {
  set.add(Family::probe_level, {}, static_cast<std::uint64_t>(stats.level));
  for (const ProbeReport& probe : stats.probes) {
    set.add(Family::probe_attached, {{"probe", probe.name}}, probe.attached ? 1 : 0);
    if (probe.attached) set.add(Family::probe_missed_runs, {{"probe", probe.name}}, probe.missed);
  }
  // Without programs nothing is recorded, and so nothing lost.
  if (!stats.any_attached()) return;
  set.add(Family::probe_records_lost, {{"kind", "hint"}}, stats.machine.hints_lost);
  set.add(Family::probe_records_lost, {{"kind", "cgroup"}}, stats.machine.cgroups_lost);
  set.add(Family::probe_records_lost, {{"kind", "task"}}, stats.machine.tasks_lost);
  set.add(Family::probe_corrections, {}, stats.machine.corrections);
  for (std::size_t kind = 0; kind < hint_names.size(); ++kind)
    set.add(Family::probe_hints, {{"kind", hint_names[kind]}}, stats.hints[kind]);
}

void add_checkpoint(FamilySet& set, std::string_view id, const FileSample& sample) {
  set.add(Family::page_cache_level, {{"checkpoint", id}}, static_cast<std::uint64_t>(sample.level));
  if (sample.traffic) {
    set.add(Family::page_cache_added, {{"checkpoint", id}}, sample.traffic->added_bytes);
    set.add(Family::page_cache_refaulted, {{"checkpoint", id}}, sample.traffic->refaulted_bytes);
    for (std::size_t cause = 0; cause < removal_causes; ++cause) {
      const auto which = static_cast<RemovalCause>(cause);
      const std::optional<std::uint64_t> bytes = sample.traffic->removed_by(which);
      if (!bytes) continue;
      set.add(Family::page_cache_removed, {{"checkpoint", id}, {"cause", removal_cause_name(which)}}, *bytes);
    }
  }
  if (sample.faults) {
    set.add(Family::page_cache_faults, {{"checkpoint", id}}, sample.faults->major_faults);
    set.add_seconds(Family::page_cache_fault_seconds, {{"checkpoint", id}}, sample.faults->stall_ns);
  }
}

// Those beyond the bound are left out: a sum of counters that come and go would fall.
void add_checkpoints(FamilySet& set, const std::vector<PageCacheFigures>& checkpoints) {
  std::size_t shown = 0;
  for (const PageCacheFigures& one : checkpoints) {
    if (!one.sample || !is_checkpoint_id(one.checkpoint)) continue;
    if (++shown > checkpoint_labels_max) return;
    add_checkpoint(set, one.checkpoint, *one.sample);
  }
}

void add_reclaim(FamilySet& set, const KernelStats& stats) {
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    const std::optional<LatencyHistogram>& durations = stats.machine.reclaim_durations[kind];
    if (!durations) continue;
    const std::string_view name = reclaim_kind_name(static_cast<ReclaimKind>(kind));
    std::uint64_t ns = 0;
    for (std::size_t owner = 0; owner < stats.reclaim.size(); ++owner) {
      const ReclaimSample& sample = stats.reclaim[owner].reclaim[kind];
      ns += sample.ns;
      set.add(Family::reclaimed_bytes, {{"cgroup", cgroup_owner_names[owner]}, {"kind", name}}, sample.bytes);
      set.add_seconds(Family::reclaim_seconds, {{"cgroup", cgroup_owner_names[owner]}, {"kind", name}},
                      sample.ns);
    }
    set.add_histogram(Family::reclaim_duration, {{"kind", name}}, *durations, latency_bounds, ns);
  }
  if (stats.machine.kswapd_wakes) set.add(Family::kswapd_wakes, {}, *stats.machine.kswapd_wakes);
  if (!stats.machine.oom_kills) return;
  for (std::size_t owner = 0; owner < stats.reclaim.size(); ++owner)
    set.add(Family::oom_kills, {{"cgroup", cgroup_owner_names[owner]}}, stats.reclaim[owner].oom_kills);
}

void add_pressure(FamilySet& set, const KernelStats& stats) {
  for (std::size_t scope = 0; scope < stats.pressure.size(); ++scope) {
    const PressureFigures& figures = stats.pressure[scope];
    const std::string_view name = pressure_scope_names[scope];
    if (figures.looked_for) set.add(Family::pressure_available, {{"cgroup", name}}, figures.pressure ? 1 : 0);
    if (!figures.pressure) continue;
    const auto add = [&](std::string_view kind, const std::optional<PressureLine>& line) {
      if (!line) return;
      set.add_seconds(Family::cgroup_pressure, {{"cgroup", name}, {"kind", kind}},
                      static_cast<std::uint64_t>(line->total.count()));
    };
    add("some", figures.pressure->some);
    add("full", figures.pressure->full);
    if (figures.events) set.add(Family::cgroup_pressure_events, {{"cgroup", name}}, *figures.events);
  }
}

void add_cgroup(FamilySet& set, const CgroupFigures& cgroup) {
  const auto gauge = [&](Family family, const std::optional<std::uint64_t>& bytes) {
    if (bytes) set.add(family, {{"cgroup", "service"}}, *bytes);
  };
  gauge(Family::cgroup_headroom, cgroup.limits.headroom);
  const auto by = [&](Family family, std::string_view label, std::string_view value,
                      const std::optional<std::uint64_t>& figure) {
    if (figure) set.add(family, {{"cgroup", "service"}, {label, value}}, *figure);
  };
  by(Family::cgroup_limit, "limit", "max", cgroup.limits.max);
  by(Family::cgroup_limit, "limit", "high", cgroup.limits.high);
  by(Family::cgroup_limit_hits, "limit", "max", cgroup.events.limit_hits);
  by(Family::cgroup_limit_hits, "limit", "high", cgroup.events.high_hits);
  by(Family::cgroup_used, "kind", "anonymous", cgroup.use.anonymous);
  by(Family::cgroup_used, "kind", "page_cache", cgroup.use.page_cache);
  by(Family::cgroup_used, "kind", "shared_memory", cgroup.use.shared_memory);
  by(Family::cgroup_used, "kind", "swapped", cgroup.use.swapped);
  by(Family::cgroup_used, "kind", "compressed", cgroup.use.compressed);
  by(Family::cgroup_used, "kind", "on_disk", cgroup.use.on_disk);
}

}  // namespace

void add_kernel(FamilySet& set, const KernelStats& stats) {
  add_probes(set, stats);
  add_checkpoints(set, stats.checkpoints);
  if (stats.machine.fault_durations) {
    set.add_histogram(Family::major_fault_latency, {}, *stats.machine.fault_durations, latency_bounds,
                      stats.machine.fault_ns);
  }
  add_reclaim(set, stats);
  add_pressure(set, stats);
  if (stats.cgroup) add_cgroup(set, *stats.cgroup);
}

}  // namespace penstock
