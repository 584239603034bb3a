// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/pressure/stamped.hpp"

namespace penstock::bench {

void RoundClock::begin() {
  const std::lock_guard lock(mutex_);
  times_ = {};
  began_ = monotonic_now();
}

void RoundClock::hear(const Hint& hint) {
  const bool by_limit = hint.kind == Hint::Kind::reclaimed ? hint.cause == RemovalCause::memcg_limit
                                                           : hint.kind == Hint::Kind::stall;
  const std::lock_guard lock(mutex_);
  if (!by_limit || hint.cgroup != cgroup_ || hint.at < began_ || times_.event) return;
  times_.event = hint.at;
  times_.heard = monotonic_now();
  changed_.notify_all();
}

void RoundClock::give_back() {
  const std::lock_guard lock(mutex_);
  if (times_.given_back) return;
  times_.given_back = monotonic_now();
  changed_.notify_all();
}

bool RoundClock::wait_for_memory() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return times_.given_back.has_value(); });
}

bool RoundClock::wait_for_event() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return times_.event.has_value(); });
}

RoundTimes RoundClock::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

}  // namespace penstock::bench
