// SPDX-License-Identifier: Apache-2.0
#include "exporters/collector.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "exporters/device_families.hpp"
#include "exporters/family_set.hpp"
#include "exporters/kernel_families.hpp"
#include "exporters/text_format.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, session_outcomes> outcome_names = {"closed", "disconnected",
                                                                          "violated", "killed", "refused"};
constexpr std::array<std::string_view, 3> place_names = {"device", "locked_host", "page_cache"};
constexpr std::size_t checkpoint_id_digits = 12;

void add_checkpoints(FamilySet& set, const std::vector<CheckpointFigures>& checkpoints) {
  std::set<std::string_view> labels;
  std::map<std::pair<std::string_view, CheckpointPlace>, std::uint64_t> bytes;
  for (const CheckpointFigures& figures : checkpoints) {
    const bool known = labels.contains(figures.id);
    const bool named = known || (is_checkpoint_id(figures.id) && labels.size() < checkpoint_labels_max);
    if (named) labels.insert(figures.id);
    bytes[{named ? std::string_view(figures.id) : "other", figures.place}] += figures.bytes;
  }
  for (const auto& [key, sum] : bytes) {
    const std::string_view place = place_names[static_cast<std::size_t>(key.second)];
    set.add(Family::checkpoint_bytes, {{"checkpoint", key.first}, {"place", place}}, sum);
  }
}

void add_service(FamilySet& set, const ServiceStats& service) {
  set.add(Family::clients, {}, service.clients);
  for (std::size_t index = 0; index < session_outcomes; ++index)
    set.add(Family::sessions, {{"outcome", outcome_names[index]}}, service.sessions[index]);
  set.add(Family::locked_host_bytes, {}, service.locked_host_bytes);
  set.add(Family::budget_bytes, {{"pool", "locked_host"}}, service.locked_host_budget_bytes);
  if (service.pressure) {
    const GovernorFigures& pressure = *service.pressure;
    set.add(Family::pressure_level, {}, static_cast<std::uint64_t>(pressure.level));
    set.add(Family::pressure_room, {}, pressure.room_bytes);
    set.add(Family::pressure_excess, {}, pressure.excess_bytes);
    set.add(Family::budget_changes, {{"direction", "down"}}, pressure.falls);
    set.add(Family::budget_changes, {{"direction", "up"}}, pressure.rises);
  }
  add_checkpoints(set, service.checkpoints);
}

void add_tier(FamilySet& set, const TierStats& tier) {
  set.add(Family::budget_bytes, {{"pool", "host_tier"}}, tier.budget_bytes);
  set.add(Family::tier_bytes, {{"state", "used"}}, tier.used_bytes);
  set.add(Family::tier_bytes, {{"state", "held"}}, tier.held_bytes);
  set.add(Family::tier_reads, {{"result", "hit"}}, tier.hits);
  set.add(Family::tier_reads, {{"result", "miss"}}, tier.misses);
  set.add(Family::tier_read_bytes, {{"result", "hit"}}, tier.hit_bytes);
  set.add(Family::tier_read_bytes, {{"result", "miss"}}, tier.miss_bytes);
  set.add(Family::tier_evictions, {}, tier.evictions);
  set.add(Family::tier_refused, {}, tier.refused_frames);
}

}  // namespace

bool is_checkpoint_id(std::string_view id) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return id.size() == checkpoint_id_digits && std::ranges::all_of(id, is_digit);
}

std::vector<prometheus::MetricFamily> Collector::Collect() const {
  FamilySet set;
  set.add(Family::build_info, {{"version", sources_.version}}, 1);
  if (sources_.service) {
    const std::optional<ServiceStats> service = sources_.service();
    set.add(Family::collector_success, {{"collector", "service"}}, service ? 1 : 0);
    if (service) add_service(set, *service);
  }
  if (sources_.reader_backend) {
    const std::optional<std::string> backend = sources_.reader_backend();
    set.add(Family::collector_success, {{"collector", "reader"}}, backend ? 1 : 0);
    if (backend) set.add(Family::reader_info, {{"backend", *backend}}, 1);
  }
  add_devices(set, sources_.devices);
  if (sources_.tier) {
    const std::optional<TierStats> tier = sources_.tier();
    set.add(Family::collector_success, {{"collector", "tier"}}, tier ? 1 : 0);
    if (tier) add_tier(set, *tier);
  }
  if (sources_.kernel) {
    const std::shared_ptr<const KernelStats> stats = sources_.kernel();
    set.add(Family::collector_success, {{"collector", "kernel"}}, stats ? 1 : 0);
    if (stats) add_kernel(set, *stats);
  }
  return set.take();
}

std::string Collector::page() const { return to_text_format(Collect()); }

}  // namespace penstock
