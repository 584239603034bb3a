// SPDX-License-Identifier: Apache-2.0
// How long tasks waited for memory, window by window, out of totals that somebody else reads. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/clock.hpp"

namespace penstock {

// Time during which tasks waited for memory, since some beginning.
struct StallTotals {
  Nanoseconds some{}, full{};
};

// Totals as they were read. Those of different sources say nothing about each other.
struct StallReading {
  Nanoseconds at{};          // When; never back.
  std::uint64_t source = 0;  // Whose; another number when another cgroup is read.
  StallTotals totals{};
};

class StallWindow {
 public:
  // What was waited for in the window that this reading ends, with its length; nothing as long as it is shorter than
  // `length`, and where the source changed or nobody measured. Windows are as long as the readings lie apart: one that
  // comes late is of a longer window, not of more stalls.
  struct Waited {
    Nanoseconds elapsed{};
    StallTotals totals;
  };
  std::optional<Waited> advance(const std::optional<StallReading>& now, Nanoseconds length);
  // The next window begins here.
  void restart(const std::optional<StallReading>& now) { start_ = now; }

 private:
  std::optional<StallReading> start_;
};

}  // namespace penstock
