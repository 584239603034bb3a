// SPDX-License-Identifier: Apache-2.0
#include "service/policy/stall_window.hpp"

namespace penstock {

std::optional<StallWindow::Waited> StallWindow::advance(const std::optional<StallReading>& now,
                                                        Nanoseconds length) {
  if (!now || !start_ || now->source != start_->source) {
    restart(now);
    return std::nullopt;
  }
  const Waited waited{.elapsed = now->at - start_->at,
                      .totals = {.some = now->totals.some - start_->totals.some,
                                 .full = now->totals.full - start_->totals.full}};
  if (waited.elapsed < length) return std::nullopt;
  restart(now);
  return waited;
}

}  // namespace penstock
