// SPDX-License-Identifier: Apache-2.0
#include "service/control/kernel_json.hpp"

#include <nlohmann/json.hpp>

#include "service/control/decision_log.hpp"
#include "service/control/recent_hints.hpp"

namespace penstock {
namespace {

using Json = nlohmann::json;

void put(Json& object, const char* key, const std::optional<std::uint64_t>& figure) {
  if (figure) object[key] = *figure;
}

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

void put_pressure(Json& object, const Pressure& pressure) {
  const auto line = [&](const char* key, const std::optional<PressureLine>& one) {
    if (!one) return;
    object[key] = {{"percent_of_10_seconds", one->percent_of_10_s / 100.0},
                   {"seconds", seconds(static_cast<std::uint64_t>(one->total.count()))}};
  };
  line("some", pressure.some);
  line("full", pressure.full);
}

// Kinds that never happened are left out: most machines see two of them.
Json reclaim_json(const ReclaimFigures& figures) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    const ReclaimSample& sample = figures.reclaim[kind];
    if (sample.episodes == 0) continue;
    json[reclaim_kind_name(static_cast<ReclaimKind>(kind))] = {
        {"episodes", sample.episodes},
        {"seconds", seconds(sample.ns)},
        {"bytes", sample.bytes},
        {"longest_seconds", seconds(sample.longest_ns)}};
  }
  return json;
}

Json cgroup_json(const CgroupFigures& cgroup) {
  Json json = Json::object();
  put(json, "max_bytes", cgroup.limits.max);
  put(json, "high_bytes", cgroup.limits.high);
  put(json, "headroom_bytes", cgroup.limits.headroom);
  put(json, "anonymous_bytes", cgroup.use.anonymous);
  put(json, "page_cache_bytes", cgroup.use.page_cache);
  put(json, "shared_memory_bytes", cgroup.use.shared_memory);
  put(json, "swapped_bytes", cgroup.use.swapped);
  put(json, "compressed_bytes", cgroup.use.compressed);
  put(json, "on_disk_bytes", cgroup.use.on_disk);
  put(json, "limit_hits", cgroup.events.limit_hits);
  put(json, "high_hits", cgroup.events.high_hits);
  put(json, "oom_kills", cgroup.events.oom_kills);
  return json;
}

// Who waited, or was killed. A cgroup is told by its number: a name may be hidden from us.
Json hint_json(const KernelStats& stats, const Hint& hint) {
  const auto time = stats.wall_at - std::chrono::round<std::chrono::milliseconds>(stats.at - hint.at);
  const bool own = hint.cgroup != 0 && hint.cgroup == stats.cgroup_id;
  Json json{{"time", format_time(time)},
            {"kind", hint_names[static_cast<std::size_t>(hint.kind)]},
            {"process", hint.process},
            {"command", command_of(hint)},
            {"cgroup", hint.cgroup},
            {"owner",
             cgroup_owner_names[static_cast<std::size_t>(own ? CgroupOwner::service : CgroupOwner::others)]}};
  if (hint.kind == Hint::Kind::stall) {
    json["reclaim"] = reclaim_kind_name(hint.reclaim);
    json["seconds"] = seconds(static_cast<std::uint64_t>(hint.duration.count()));
    json["bytes"] = hint.bytes;
  }
  return json;
}

// Which part of the file is in the page cache, and where pages came and went: lists by part.
Json parts_json(const PageCacheFigures& figures) {
  Json json{{"part_bytes", figures.part_bytes}};
  for (const ExtentSample& part : figures.parts) {
    json["resident_bytes"].push_back(part.resident_bytes ? Json(*part.resident_bytes) : Json());
    json["added_bytes"].push_back(part.traffic ? part.traffic->added_bytes : 0);
    json["removed_bytes"].push_back(part.traffic ? part.traffic->removed_bytes : 0);
    json["reclaimed_bytes"].push_back(part.reclaimed_bytes);
  }
  return json;
}

}  // namespace

void add_page_cache(Json& checkpoint, const PageCacheFigures& figures) {
  put(checkpoint, "page_cache_bytes", figures.resident_bytes());
  Json json{{"level", probe_level_name(figures.sample ? figures.sample->level : ProbeLevel::none)}};
  if (!figures.why.empty()) json["why"] = figures.why;
  if (figures.sample && figures.sample->traffic) {
    const FileTraffic& traffic = *figures.sample->traffic;
    json["added_bytes"] = traffic.added_bytes;
    json["refaulted_bytes"] = traffic.refaulted_bytes;
    Json removed = Json::object();
    for (std::size_t cause = 0; cause < removal_causes; ++cause) {
      const auto which = static_cast<RemovalCause>(cause);
      put(removed, removal_cause_name(which), traffic.removed_by(which));
    }
    json["removed_bytes"] = std::move(removed);
  }
  if (figures.sample && figures.sample->faults) {
    json["major_faults"] = figures.sample->faults->major_faults;
    json["fault_seconds"] = seconds(figures.sample->faults->stall_ns);
  }
  if (!figures.parts.empty()) json["parts"] = parts_json(figures);
  checkpoint["page_cache"] = std::move(json);
}

void add_client_cgroup(Json& client, const ClientCgroupFigures& figures) {
  Json json = cgroup_json(figures.cgroup);
  if (figures.pressure) put_pressure(json["pressure"], *figures.pressure);
  if (figures.reclaim) json["reclaim"] = reclaim_json(*figures.reclaim);
  client["cgroup"] = std::move(json);
}

Json pressure_json(const KernelStats* stats, const std::optional<GovernorFigures>& governor) {
  Json json{{"level", nullptr}};
  if (governor) {
    json["level"] = pressure_level_names[static_cast<std::size_t>(governor->level)];
    json["room_bytes"] = governor->room_bytes;
    json["low_bytes"] = governor->low_bytes;
    json["high_bytes"] = governor->high_bytes;
    json["host_budget_bytes"] = governor->frames_bytes;
    json["excess_bytes"] = governor->excess_bytes;
    json["falls"] = governor->falls;
    json["rises"] = governor->rises;
  }
  if (stats == nullptr) return json;
  for (std::size_t scope = 0; scope < stats->pressure.size(); ++scope) {
    const PressureFigures& figures = stats->pressure[scope];
    if (!figures.pressure) continue;
    Json& one = json[std::string(pressure_scope_names[scope])];
    put_pressure(one, *figures.pressure);
    put(one, "events", figures.events);
    if (figures.events) one["by_trigger"] = figures.by_trigger;
  }
  if (stats->cgroup) json["cgroup"] = cgroup_json(*stats->cgroup);
  put(json, "kswapd_wakes", stats->machine.kswapd_wakes);
  put(json, "oom_kills", stats->machine.oom_kills);
  for (const Hint& hint : stats->recent) json["recent"].push_back(hint_json(*stats, hint));
  const bool reclaim_known = std::ranges::any_of(stats->machine.reclaim_durations,
                                                 [](const auto& histogram) { return histogram.has_value(); });
  if (!reclaim_known) return json;
  for (std::size_t owner = 0; owner < stats->reclaim.size(); ++owner)
    json["reclaim"][std::string(cgroup_owner_names[owner])] = reclaim_json(stats->reclaim[owner]);
  return json;
}

void add_probes(Json& doctor, const KernelStats& stats) {
  Json probes = Json::array();
  for (const ProbeReport& probe : stats.probes) {
    probes.push_back(
        {{"name", probe.name}, {"attached", probe.attached}, {"how", probe.how}, {"why", probe.why}});
  }
  doctor["probes"] = std::move(probes);
  doctor["probe_level"] = probe_level_name(stats.level);
  doctor["probe_remedy"] = stats.remedy;
}

}  // namespace penstock
