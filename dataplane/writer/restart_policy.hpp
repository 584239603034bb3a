// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: how long to wait before the next writer, or not to try any more. Pure; time is a number of ticks.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace penstock {

struct RestartPolicyOptions {
  std::uint32_t deaths_max = 5;      // So many within the window: quarantine.
  std::uint64_t window_ticks = 120;  // A minute.
  std::uint64_t back_off_ticks = 1;  // Before the second; doubles from there.
};

class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartPolicyOptions& options) : options_(options) {}

  // Ticks to wait before the replacement; none: quarantine.
  std::optional<std::uint64_t> died(std::uint64_t now) {
    while (!deaths_.empty() && deaths_.front() + options_.window_ticks <= now) deaths_.pop_front();
    deaths_.push_back(now);
    if (deaths_.size() >= options_.deaths_max) return std::nullopt;
    if (deaths_.size() == 1) return 0;
    return options_.back_off_ticks << (deaths_.size() - 2);
  }
  void forgive() { deaths_.clear(); }
  // One more chance: the next death within the window is a quarantine.
  void put_on_probation(std::uint64_t now) { deaths_.assign(options_.deaths_max - 1, now); }

 private:
  const RestartPolicyOptions options_;
  std::deque<std::uint64_t> deaths_;  // When; at most deaths_max.
};

}  // namespace penstock
