// SPDX-License-Identifier: Apache-2.0
// TokenBucket: a rate of bytes, with time passed in. A taker may go into debt, so that one read larger than
// the burst is possible; the next waits until the debt is paid.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/base/clock.hpp"

namespace penstock {

class TokenBucket {
 public:
  // Rate 0: no limit. The burst is what a tenth of a second brings.
  explicit TokenBucket(std::uint64_t bytes_per_second)
      : rate_(static_cast<double>(bytes_per_second)), burst_(rate_ / 10), tokens_(burst_) {}

  bool unlimited() const { return rate_ == 0; }
  void advance(Nanoseconds now) {
    if (unlimited()) return;
    if (now > last_) tokens_ = std::min(burst_, tokens_ + seconds(now - last_) * rate_);
    last_ = std::max(last_, now);
  }
  bool ready() const { return unlimited() || tokens_ > 0; }
  void take(std::uint64_t bytes) { tokens_ -= unlimited() ? 0 : static_cast<double>(bytes); }
  // REQUIRES: !ready(). When it will be.
  Nanoseconds ready_at() const {
    return last_ + Nanoseconds(1 + static_cast<std::int64_t>((1 - tokens_) / rate_ * 1e9));
  }

 private:
  static double seconds(Nanoseconds span) { return std::chrono::duration<double>(span).count(); }

  double rate_;
  double burst_;
  double tokens_;
  Nanoseconds last_{0};
};

}  // namespace penstock
