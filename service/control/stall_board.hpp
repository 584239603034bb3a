// SPDX-License-Identifier: Apache-2.0
// StallBoard: how long tasks have waited for memory, as the thread that watches pressure saw it last. Written by that
// thread, read by whoever decides, without a lock: neither waits for the snapshots of the kernel's side.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "bpf/pressure.hpp"
#include "dataplane/base/clock.hpp"
#include "service/control/kernel_stats.hpp"
#include "service/policy/pressure.hpp"

namespace penstock {

struct StallsSeen {
  // In the service's cgroup, in the ancestor above it whose limit is the tightest, on the machine. The latter two hold
  // others, too.
  std::optional<StallReading> own, above, machine;
  std::uint64_t bounds_passed = 0, bounds_passed_above = 0;  // In the two cgroups. Grow.
};

class StallBoard {
 public:
  static constexpr Nanoseconds age_max = std::chrono::seconds(5);  // Twenty readings.

  // The writer's.
  void see(PressureScope scope, const Pressure& pressure, Nanoseconds now) {
    Place& place = at(scope);
    ++place.changes;
    if (pressure.some) place.some = pressure.some->total.count();
    if (pressure.full) place.full = pressure.full->total.count();
    place.at = now.count();
    place.seen = true;
    ++place.changes;
  }
  void pass_bound(PressureScope scope) { ++at(scope).bounds_passed; }
  // Other cgroups are watched from now on. REQUIRES: there is no writer at the moment.
  void unsee() {
    ++watched_;
    for (Place& place : places_) place.seen = false;
  }

  // Any thread. The numbers of a place are of one reading, unless its writer writes again and again meanwhile. A place
  // that was not written to for longer than `age_max` says nothing: its file can't be read any more, or its reader hangs.
  StallsSeen read(Nanoseconds now) const {
    return {.own = reading(PressureScope::service, now),
            .above = reading(PressureScope::limit, now),
            .machine = reading(PressureScope::machine, now),
            .bounds_passed = bounds_passed(PressureScope::service),
            .bounds_passed_above = bounds_passed(PressureScope::limit)};
  }
  std::uint64_t bounds_passed(PressureScope scope) const { return at(scope).bounds_passed; }

 private:
  struct Place {
    std::atomic<bool> seen = false;
    std::atomic<std::uint64_t> changes = 0;                // Odd while it is written to.
    std::atomic<std::int64_t> some = 0, full = 0, at = 0;  // Nanoseconds.
    std::atomic<std::uint64_t> bounds_passed = 0;
  };
  std::optional<StallReading> reading(PressureScope scope, Nanoseconds now) const {
    const Place& place = at(scope);
    if (!place.seen || now - Nanoseconds(place.at) > age_max) return std::nullopt;
    StallReading reading{.source = watched_ * places_.size() + static_cast<std::size_t>(scope)};
    // Bounded: whoever decides never waits for the writer.
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t before = place.changes;
      reading.at = Nanoseconds(place.at);
      reading.totals = {.some = Nanoseconds(place.some), .full = Nanoseconds(place.full)};
      if (before % 2 == 0 && place.changes == before) break;
    }
    return reading;
  }
  Place& at(PressureScope scope) { return places_[static_cast<std::size_t>(scope)]; }
  const Place& at(PressureScope scope) const { return places_[static_cast<std::size_t>(scope)]; }

  std::array<Place, pressure_scope_names.size()> places_;
  std::atomic<std::uint64_t> watched_ = 0;  // How often the cgroups changed.
};

}  // namespace penstock
