// SPDX-License-Identifier: Apache-2.0
// Linger: whether the thread should look for the next message before it sleeps.
//
// Yielding the processor between two looks lets a client that shares it go on. But whoever yields to a process that
// computes gets the processor back a whole time slice later (3 ms, Linux 6.18), so on a processor that others want
// there is no lingering for a while.
#pragma once

#include "dataplane/base/clock.hpp"

namespace penstock {

class Linger {
 public:
  // `span`: after each fault. 0: never.
  explicit Linger(Nanoseconds span) : span_(span) {}

  void fault_served(Nanoseconds now) {
    if (now >= rests_until_) until_ = now + span_;
  }
  bool lingers(Nanoseconds now) const { return now < until_; }
  // A yield took from `before` to `now`.
  void yielded(Nanoseconds before, Nanoseconds now) {
    if (now - before <= yield_max) return;
    until_ = {};
    rests_until_ = now + rest;
  }

 private:
  static constexpr Nanoseconds yield_max = std::chrono::microseconds(100);
  static constexpr Nanoseconds rest = std::chrono::seconds(1);

  Nanoseconds span_;
  Nanoseconds until_{};
  Nanoseconds rests_until_{};
};

}  // namespace penstock
