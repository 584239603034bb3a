// SPDX-License-Identifier: Apache-2.0
// ReclaimSums: what the tasks of all cgroups reclaimed, for the service and for all others. Neither sum ever falls, whatever
// cgroups are removed and wherever the service is put. Pure; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "bpf/probe_stats.hpp"
#include "service/control/kernel_stats.hpp"

namespace penstock {

class ReclaimSums {
 public:
  using Sums = std::array<ReclaimFigures, cgroup_owner_names.size()>;  // By CgroupOwner.

  // `own`: the service's cgroup now; 0 when it is in none. What a cgroup had counted before it became the service's stays
  // with the others, and what the service's former one has counted stays the service's.
  const Sums& advance(std::span<const CgroupSample> samples, std::uint64_t own);

 private:
  std::optional<std::uint64_t> own_;  // At the last call.
  CgroupSample own_last_;
  Sums sums_{};
};

}  // namespace penstock
