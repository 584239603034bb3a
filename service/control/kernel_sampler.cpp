// SPDX-License-Identifier: Apache-2.0
#include "service/control/kernel_sampler.hpp"

#include <cstring>

#include <span>

#include <fmt/format.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

constexpr auto copied_up_text =
    "the file was changed on its overlay since it was opened, and so copied to the upper layer: its page "
    "cache is "
    "known again once it is opened anew";

ExtentSample joined(std::span<const ExtentSample> extents) {
  ExtentSample sum{.resident_bytes = 0, .traffic = ExtentTraffic{}, .reclaimed_bytes = 0};
  for (const ExtentSample& one : extents) {
    if (sum.resident_bytes && one.resident_bytes) *sum.resident_bytes += *one.resident_bytes;
    if (!one.resident_bytes) sum.resident_bytes.reset();
    if (one.traffic) {
      sum.traffic->added_bytes += one.traffic->added_bytes;
      sum.traffic->removed_bytes += one.traffic->removed_bytes;
    }
    sum.reclaimed_bytes += one.reclaimed_bytes;
  }
  return sum;
}

std::string why(const Error& error) {
  std::string text = error.operation;
  if (error.code == Errc::exhausted) text += ": no room for more files";
  if (error.native != 0) text += fmt::format(": {}", std::strerror(error.native));
  return text;
}

}  // namespace

KernelSampler::KernelSampler(std::unique_ptr<ProbeSet> probes, Options options)
    : probes_(std::move(probes)), options_(std::move(options)) {
  open_cgroups();
}

KernelSampler::~KernelSampler() {
  // It consumes the hints of the probes, and its edges are in the directories of the cgroups.
  watch_.reset();
  for (const auto& [checkpoint, followed] : followed_) {
    if (followed.file) probes_->untrack(*followed.file);
  }
}

void KernelSampler::open_cgroups() {
  watch_.reset();
  cgroups_ = std::make_unique<CgroupReader>(options_.root);
  watched_.clear();
  by_trigger_ = {};
  stalls_->unsee();
  std::vector<PressureEdge> edges;
  for (auto& [scope, edge] : cgroups_->edges()) {
    watched_.push_back(scope);
    by_trigger_[static_cast<std::size_t>(scope)] = edge.armed();
    edges.push_back(std::move(edge));
  }
  PressureWatch::Told told{
      .hint =
          [this](const Hint& hint) {
            // Before anything that may wait: whoever reads the recent ones holds their lock.
            if (options_.alarm) options_.alarm();
            ++hints_[static_cast<std::size_t>(hint.kind)];
            recent_.add(hint);
          },
      .pressure =
          [this](std::size_t edge) {
            stalls_->pass_bound(watched_[edge]);
            if (options_.alarm) options_.alarm();
          },
      .seen = [this](std::size_t edge,
                     const Pressure& pressure) { stalls_->see(watched_[edge], pressure, monotonic_now()); }};
  Result<std::unique_ptr<PressureWatch>> watch =
      PressureWatch::start(*probes_, std::move(edges), std::move(told));
  if (watch) {
    watch_ = *std::move(watch);
  } else {
    warnings_.push_back(fmt::format("pressure is not watched for: {}", why(watch.error())));
    watched_.clear();
  }
}

void KernelSampler::follow(const std::string& checkpoint, int fd, std::shared_ptr<const void> owner) {
  forget(checkpoint);
  const Result<Tracking> tracking = probes_->track(fd, std::move(owner));
  if (!tracking) {
    followed_[checkpoint] = {.file = std::nullopt, .traced = false, .why = why(tracking.error())};
    return;
  }
  const bool traced = tracking->level >= ProbeLevel::traced;
  followed_[checkpoint] = {.file = tracking->file, .traced = traced, .why = tracking->why};
  if (traced) counts_.begin(checkpoint, probes_->sample(tracking->file));
}

void KernelSampler::forget(const std::string& checkpoint) {
  const auto found = followed_.find(checkpoint);
  if (found == followed_.end()) return;
  if (found->second.traced) counts_.end(checkpoint, probes_->sample(*found->second.file));
  if (found->second.file) probes_->untrack(*found->second.file);
  followed_.erase(found);
}

KernelStats KernelSampler::sample(Nanoseconds now, const std::map<std::uint32_t, ProcessRef>& clients) {
  if (now >= next_outdated_) {
    next_outdated_ = now + outdated_period;
    if (cgroups_->is_outdated()) open_cgroups();
    probes_->look_for_unlinked();
    read_clients(clients);
  }
  if (now >= next_reconcile_) {
    next_reconcile_ = now + reconcile_period;
    probes_->reconcile();
  }
  KernelStats stats;
  stats.at = now;
  stats.wall_at = std::chrono::system_clock::now();
  stats.level = probes_->level();
  stats.remedy = options_.remedy;
  stats.probes = probes_->report();
  for (const auto& [checkpoint, followed] : followed_) {
    PageCacheFigures& figures = stats.checkpoints.emplace_back();
    figures.checkpoint = checkpoint;
    figures.why = followed.why;
    if (followed.file) figures.sample = probes_->sample(*followed.file);
    if (figures.sample && figures.sample->copied_up) figures.why = copied_up_text;
    if (!followed.traced) continue;
    counts_.apply(checkpoint, *figures.sample);
    add_parts(*followed.file, figures);
  }
  stats.machine = probes_->sample_machine();
  cgroups_->read(stats);
  for (const ClientCgroupFigures& client : clients_) {
    if (clients.contains(client.client)) stats.clients.push_back(client);
  }
  add_reclaim(stats);
  for (const PressureScope scope : watched_) {
    const auto index = static_cast<std::size_t>(scope);
    stats.pressure[index].events = stalls_->bounds_passed(scope);
    stats.pressure[index].by_trigger = by_trigger_[index];
  }
  for (std::size_t i = 0; i < hints_.size(); ++i) stats.hints[i] = hints_[i].load();
  stats.recent = recent_.latest();
  stats.cgroup_id = cgroups_->cgroup_id();
  for (std::string& line : recent_.take_kill_lines(now)) warnings_.push_back(std::move(line));
  return stats;
}

void KernelSampler::add_parts(TrackedFileId file, PageCacheFigures& figures) {
  extents_.assign(probes_->extents(file), {});
  extents_.resize(probes_->sample_extents(file, extents_));
  const std::size_t each = std::max<std::size_t>(1, divide_up(extents_.size(), parts_max));
  figures.part_bytes = each * probes_->extent_bytes(file);
  for (std::size_t i = 0; i < extents_.size(); i += each) {
    const std::size_t end = std::min(extents_.size(), i + each);
    figures.parts.push_back(joined(std::span(extents_).subspan(i, end - i)));
  }
}

void KernelSampler::read_clients(const std::map<std::uint32_t, ProcessRef>& clients) {
  clients_.clear();
  for (const auto& [number, process] : clients) {
    std::optional<ClientCgroupFigures> figures = cgroups_->read_client(process, of_clients_);
    if (!figures) continue;
    figures->client = number;
    clients_.push_back(*figures);
  }
}

void KernelSampler::add_reclaim(KernelStats& stats) {
  const std::vector<CgroupSample> samples = probes_->sample_cgroups();
  stats.reclaim = reclaim_sums_.advance(samples, cgroups_->cgroup_id());
  for (const CgroupSample& sample : samples) {
    for (ClientCgroupFigures& client : stats.clients) {
      if (client.cgroup_id == sample.id) client.reclaim = {sample.reclaim, sample.oom_kills};
    }
  }
}

std::vector<std::string> KernelSampler::warnings() {
  std::vector<std::string> all = std::exchange(warnings_, {});
  for (std::string& warning : cgroups_->warnings()) all.push_back(std::move(warning));
  for (std::string& warning : of_clients_.take()) all.push_back(std::move(warning));
  return all;
}

}  // namespace penstock
