// SPDX-License-Identifier: Apache-2.0
// Linger: whether a thread should look for the next message before it sleeps. On a virtual machine to wake a processor
// that sleeps takes ten times as long as the message itself.
//
// Yielding the processor between two looks lets a peer that shares it go on. But whoever yields to a process that
// computes gets the processor back a whole time slice later (3 ms, Linux 6.18), so on a processor that others want
// there is no lingering for a while.
#pragma once

#include "dataplane/base/clock.hpp"

namespace penstock {

class Linger {
 public:
  // `span`: after each begin(). 0: never.
  explicit Linger(Nanoseconds span) : span_(span) {}

  // Something happened after which a message is likely. The first one of a burst doesn't count.
  void begin(Nanoseconds now) {
    const bool in_burst = now - last_begin_ <= burst_gap;
    last_begin_ = now;
    if (in_burst && now >= rests_until_) until_ = now + span_;
  }
  bool lingers(Nanoseconds now) const { return now < until_; }
  // A yield has taken from `before` to `now`.
  void yielded(Nanoseconds before, Nanoseconds now) {
    if (now - before <= yield_max) return;
    until_ = {};
    rests_until_ = now + rest_factor * (now - before);
  }

 private:
  static constexpr Nanoseconds burst_gap = std::chrono::milliseconds(2);
  static constexpr Nanoseconds yield_max = std::chrono::microseconds(100);
  static constexpr int rest_factor = 50;  // What is lost to others stays below 2 % of the time.

  Nanoseconds span_;
  Nanoseconds last_begin_ = Nanoseconds::min() / 2;
  Nanoseconds until_{};
  Nanoseconds rests_until_{};
};

}  // namespace penstock
