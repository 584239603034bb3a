// SPDX-License-Identifier: Apache-2.0
// StallBoard: how long tasks have waited for memory, as the thread that watches pressure saw it last. Written by that
// thread, read by whoever decides, without a lock: neither waits for the snapshots of the kernel's side.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bpf/pressure.hpp"
#include "service/control/kernel_stats.hpp"
#include "service/policy/pressure.hpp"

namespace penstock {

struct StallsSeen {
  StallTotals
      own;  // Of the cgroup whose limit is the tightest, which holds the service's; else of the service's.
  StallTotals machine;
  std::uint64_t bounds_passed = 0;  // In the two cgroups. Grows.
};

class StallBoard {
 public:
  // The writer's.
  void see(PressureScope scope, const Pressure& pressure) {
    Place& place = at(scope);
    if (pressure.some) place.some = pressure.some->total.count();
    if (pressure.full) place.full = pressure.full->total.count();
    place.seen = true;
  }
  void pass_bound(PressureScope scope) { ++at(scope).bounds_passed; }
  // Other cgroups are watched from now on. REQUIRES: there is no writer at the moment.
  void unsee() {
    for (Place& place : places_) place.seen = false;
  }

  // Any thread. Each number is one that was written, and none goes back while the same cgroups are watched; they need
  // not be of the same moment.
  StallsSeen read() const {
    const Place& limit = at(PressureScope::limit);
    const Place& service = at(PressureScope::service);
    return {.own = totals(limit.seen ? limit : service),
            .machine = totals(at(PressureScope::machine)),
            .bounds_passed = limit.bounds_passed + service.bounds_passed};
  }
  std::uint64_t bounds_passed(PressureScope scope) const { return at(scope).bounds_passed; }

 private:
  struct Place {
    std::atomic<bool> seen = false;
    std::atomic<std::int64_t> some = 0, full = 0;  // Nanoseconds.
    std::atomic<std::uint64_t> bounds_passed = 0;
  };
  static StallTotals totals(const Place& place) {
    if (!place.seen) return {};
    return {.some = Nanoseconds(place.some), .full = Nanoseconds(place.full)};
  }
  Place& at(PressureScope scope) { return places_[static_cast<std::size_t>(scope)]; }
  const Place& at(PressureScope scope) const { return places_[static_cast<std::size_t>(scope)]; }

  std::array<Place, pressure_scope_names.size()> places_;
};

}  // namespace penstock
