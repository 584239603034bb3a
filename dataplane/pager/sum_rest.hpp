// SPDX-License-Identifier: Apache-2.0
// SumRest: when checksums of a device rest, because it could not take them. Pure.
//
// A sum that fails is tried again after a pause that doubles. Five failures in a row, or a single loss of the device's
// writer under a sum, and checksums are off for a while, which doubles too: at most three losses in a minute come from
// sums, fewer than quarantine a writer. Loads go on without sums meanwhile.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

// Checksums of the device have been turned off.
struct SumsOff {
  bool writer_lost = false;
  Nanoseconds off{};
  Error error;  // Of the sum.
};

class SumRest {
 public:
  static constexpr std::uint32_t failures_max = 5;
  static constexpr Nanoseconds pause = std::chrono::milliseconds(100);
  static constexpr Nanoseconds off_first = std::chrono::seconds(20), off_most = std::chrono::minutes(20);

  // Says so when checksums are turned off by it.
  std::optional<SumsOff> failed(Nanoseconds now, const Error& error) {
    const bool lost = error.code == Errc::device;
    if (is_off(now) || (!lost && rests(now))) return std::nullopt;  // One that was under way.
    ++failures_;
    if (!lost && failures_ < failures_max) {
      until_ = now + pause * (1u << (failures_ - 1));
      return std::nullopt;
    }
    off_ = true;
    until_ = now + off_for_;
    const SumsOff told{.writer_lost = lost, .off = off_for_, .error = error};
    off_for_ = std::min(2 * off_for_, off_most);
    return told;
  }
  void succeeded() {
    failures_ = 0;
    off_ = false;
    until_ = {};
    off_for_ = off_first;
  }

  bool rests(Nanoseconds now) const { return now < until_; }
  bool is_off(Nanoseconds now) const { return off_ && rests(now); }
  Nanoseconds until() const { return until_; }

 private:
  std::uint32_t failures_ = 0;  // In a row.
  bool off_ = false;            // Since the last success.
  Nanoseconds until_{};
  Nanoseconds off_for_ = off_first;
};

}  // namespace penstock
