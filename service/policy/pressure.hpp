// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory the service may use: samples in, a level and budgets out. Pure: no clock, no thread.
//
// Budgets fall at once and rise slowly; the level goes up at once and down with a delay. What is in use by clients is
// never taken away. Lines, rules and invariants P1 to P5: DESIGN.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "service/policy/stall_window.hpp"

namespace penstock {

enum class PressureLevel : std::uint8_t { calm, some, full };
inline constexpr std::array<std::string_view, 3> pressure_level_names = {"calm", "some", "full"};

// All of one moment, as far as it can be had. Bytes.
struct PressureSample {
  Nanoseconds at{};
  std::uint64_t limit_bytes = 0;   // The tightest: memory.max, memory.high, the machine's memory.
  std::uint64_t limit_source = 0;  // Whose it is: another number for another limit.
  std::uint64_t room_bytes = 0;    // Left below it. File cache counts as left, shared memory as used.
  std::uint64_t frame_bytes =
      0;  // Of host frames, those that are made ahead, are in the making or go as well.
  std::uint64_t kept_bytes =
      0;  // What the frames' budget must leave: pinned pages, work that clients were granted.
  std::uint64_t copy_bytes = 0;    // Locked copies of pages, for other devices to read from.
  std::uint64_t buffer_bytes = 0;  // Host buffers of clients.
  // Stalls: in the service's own cgroup; above it, in the ancestor whose limit is the tightest; on the machine. Absent:
  // nobody measures.
  std::optional<StallReading> own{}, above{}, machine{};
  std::uint64_t bounds_passed = 0, bounds_passed_above = 0;  // Of those stalls, by triggers. Grow.
};

struct PressureOptions {
  std::uint64_t frames_max_bytes =
      0;  // Capacities of the devices whose frames are host memory; 0: there is none.
  std::uint64_t copies_max_bytes = 0;   // Locked copies.
  std::uint64_t buffers_max_bytes = 0;  // As configured.
  std::uint64_t ahead_bytes = 0;        // Frames made ahead of demand, beside the budget.
  std::uint64_t line_share = 8;         // low = limit / line_share, within these two.
  std::uint64_t low_least_bytes = 64 * mib, low_most_bytes = 1 * gib;
  std::uint64_t step_share = 16;  // Of what frames and copies may be at most: what one time of stalls takes.
  Nanoseconds stall_window = std::chrono::seconds(2);
  std::int64_t some_percent = 8, full_percent = 10;  // Of a window.
  Nanoseconds calm_after = std::chrono::seconds(1);  // Without reason, for one level.
  Nanoseconds rise_time = std::chrono::seconds(10);  // From nothing to frames_max_bytes.
  std::uint64_t rise_step_bytes = 8 * mib;           // Not less at a time.
  Nanoseconds pause_least = std::chrono::seconds(2), pause_most = std::chrono::seconds(60);
};

enum class PressureReason : std::uint8_t { none, room, stall, recovered };
inline constexpr std::array<std::string_view, 4> pressure_reason_names = {"none", "room", "stall",
                                                                          "recovered"};

struct PressureAnswer {
  PressureLevel level = PressureLevel::calm;
  PressureReason reason = PressureReason::none;  // Of what has changed in this step.
  std::uint64_t low_bytes = 0, high_bytes = 0;
  std::uint64_t frames_bytes = 0;  // Budgets.
  std::uint64_t copies_bytes = 0;
  std::uint64_t buffers_bytes = 0;
  bool make_ahead = true;          // Frames may be made ahead of demand.
  bool drop_page_cache = false;    // Of what is resident.
  std::uint64_t excess_bytes = 0;  // Missing, and in the hands of clients.
  bool look_again = false;         // Soon: nothing was decided, as another limit binds than before.
};

class PressurePolicy {
 public:
  explicit PressurePolicy(const PressureOptions& options);

  // REQUIRES: sample.at does not go back.
  const PressureAnswer& step(const PressureSample& sample);
  const PressureAnswer& answer() const { return answer_; }
  const PressureOptions& options() const { return options_; }
  void verify(const PressureSample& last) const;

 private:
  std::uint64_t low_line(const PressureSample& sample) const;
  void draw_lines(const PressureSample& sample);
  bool is_confirmed(const PressureSample& sample);
  void leave_as_it_was(const PressureSample& sample);
  bool stalled(const PressureSample& sample);
  void set_level(const PressureSample& sample, bool stalls);
  struct Fallen {
    std::uint64_t copies_bytes = 0, frames_bytes = 0;
  };
  Fallen until_room(const PressureSample& sample) const;
  Fallen by_a_step(const PressureSample& sample) const;
  void fall(const PressureSample& sample, Fallen to, PressureReason reason);
  void rise(const PressureSample& sample);
  void share(const PressureSample& sample);

  const PressureOptions options_;
  PressureAnswer answer_;
  bool started_ = false;
  StallWindow own_, above_, machine_;
  std::uint64_t bounds_passed_ = 0, bounds_passed_above_ = 0;
  std::uint64_t limit_source_ = 0;                                     // At the last look that was believed.
  bool was_short_ = false;                                             // Of room, at the last look.
  bool own_full_ = false, above_full_ = false, machine_full_ = false;  // In the last whole windows.
  bool full_stalls_ = false;                                           // In those that count.
  Nanoseconds level_since_{};                                          // When the level was last justified.
  Nanoseconds fell_at_{}, rose_at_{}, pause_{};
  bool rose_since_fall_ = false;
};

}  // namespace penstock
