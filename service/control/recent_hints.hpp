// SPDX-License-Identifier: Apache-2.0
// RecentHints: who waited long for memory lately, and who was killed for lack of it. Told on the watch's thread, read on
// the sampler's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bpf/probe_stats.hpp"

namespace penstock {

class RecentHints {
 public:
  static constexpr std::size_t kept = 16;
  static constexpr std::size_t lines_max = 10;  // In each
  static constexpr Nanoseconds lines_period = std::chrono::minutes(1);

  // Keeps stalls and kills, and nothing else. Allocates nothing.
  void add(const Hint& hint);
  // The last ones, the oldest first.
  std::vector<Hint> latest() const;
  // A line for each kill since the last call, and one for all that were too many for that.
  std::vector<std::string> take_kill_lines(Nanoseconds now);

 private:
  mutable std::mutex mutex_;  // Guards all.
  std::array<Hint, kept> latest_{};
  std::uint64_t added_ = 0;
  std::array<Hint, kept> kills_{};  // Not told yet,
  std::size_t kills_waiting_ = 0;
  std::uint64_t kills_untold_ = 0;  // and those that had no room, there or in the log.
  Nanoseconds period_began_{};
  std::size_t lines_in_period_ = 0;
};

// The name of the process, with everything escaped that is no plain text: anybody chooses it.
std::string command_of(const Hint& hint);

}  // namespace penstock
