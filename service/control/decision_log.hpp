// SPDX-License-Identifier: Apache-2.0
// The last decisions with the facts that they were made from, behind `penstock explain`. Service thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

struct Decision {
  std::chrono::system_clock::time_point time;
  std::string_view kind;  // Static: "admit", "refuse", "evict", "load", "offload", "stuck", ...
  std::string subject;    // A checkpoint's, client's or device's id.
  std::uint64_t bytes = 0;
  std::string_view reason;                                         // Static.
  std::vector<std::pair<std::string_view, std::uint64_t>> inputs;  // Static names with their units.
  std::uint32_t repeated = 1;  // Equal neighbours (kind, subject, reason) are folded: bytes add up.
};

class DecisionLog {
 public:
  static constexpr std::size_t entries_max = 4096;

  void add(Decision decision);
  const std::deque<Decision>& entries() const { return entries_; }
  // JSON of `penstock explain`; subject "" = all. Oldest first.
  std::string to_json(std::string_view subject, std::chrono::system_clock::time_point since) const;

 private:
  std::deque<Decision> entries_;
};

// "2026-11-29T16:36:20.123Z"; independent of locale and time zone.
std::string format_time(std::chrono::system_clock::time_point time);

}  // namespace penstock
