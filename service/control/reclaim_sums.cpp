// SPDX-License-Identifier: Apache-2.0
#include "service/control/reclaim_sums.hpp"

#include <algorithm>

namespace penstock {
namespace {

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

// Without the longest one, which is no sum.
void add(ReclaimFigures& to, const CgroupSample& one) {
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    to.reclaim[kind].episodes += one.reclaim[kind].episodes;
    to.reclaim[kind].ns += one.reclaim[kind].ns;
    to.reclaim[kind].bytes += one.reclaim[kind].bytes;
  }
  to.oom_kills += one.oom_kills;
}

CgroupSample since(const CgroupSample& now, const CgroupSample& before) {
  CgroupSample grown;
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    const ReclaimSample &to = now.reclaim[kind], &from = before.reclaim[kind];
    grown.reclaim[kind] = {less(to.episodes, from.episodes), less(to.ns, from.ns), less(to.bytes, from.bytes),
                           to.longest_ns > from.longest_ns ? to.longest_ns : 0};
  }
  grown.oom_kills = less(now.oom_kills, before.oom_kills);
  return grown;
}

// All but the service's, unless a reading is behind the one before: a cgroup was being removed.
void raise_to_rest(ReclaimFigures& others, const ReclaimFigures& all, const ReclaimFigures& service) {
  const auto raise = [](std::uint64_t& to, std::uint64_t sum, std::uint64_t part) {
    to = std::max(to, less(sum, part));
  };
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    ReclaimSample& to = others.reclaim[kind];
    raise(to.episodes, all.reclaim[kind].episodes, service.reclaim[kind].episodes);
    raise(to.ns, all.reclaim[kind].ns, service.reclaim[kind].ns);
    raise(to.bytes, all.reclaim[kind].bytes, service.reclaim[kind].bytes);
  }
  raise(others.oom_kills, all.oom_kills, service.oom_kills);
}

}  // namespace

const ReclaimSums::Sums& ReclaimSums::advance(std::span<const CgroupSample> samples, std::uint64_t own) {
  ReclaimFigures& service = sums_[static_cast<std::size_t>(CgroupOwner::service)];
  ReclaimFigures& others = sums_[static_cast<std::size_t>(CgroupOwner::others)];
  ReclaimFigures all;
  CgroupSample own_now;
  for (const CgroupSample& sample : samples) {
    add(all, sample);
    if (own != 0 && sample.id == own) own_now = sample;
    if (own != 0 && sample.id == own) continue;
    for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
      std::uint64_t& longest = others.reclaim[kind].longest_ns;
      longest = std::max(longest, sample.reclaim[kind].longest_ns);
    }
  }
  // The first one is the service's since the probes run.
  if (own_ && *own_ != own) own_last_ = own_now;
  own_ = own;
  const CgroupSample grown = since(own_now, own_last_);
  add(service, grown);
  for (std::size_t kind = 0; kind < reclaim_kinds; ++kind) {
    std::uint64_t& longest = service.reclaim[kind].longest_ns;
    longest = std::max(longest, grown.reclaim[kind].longest_ns);
  }
  own_last_ = own_now;
  raise_to_rest(others, all, service);
  return sums_;
}

}  // namespace penstock
