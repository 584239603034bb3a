// SPDX-License-Identifier: Apache-2.0
// Time as a value. Only thread loops and composition roots call monotonic_now(); everything below takes `now`.
#pragma once

#include <chrono>

namespace penstock {

// A point on CLOCK_MONOTONIC or a span, by context; arithmetic between the two stays in one type.
using Nanoseconds = std::chrono::nanoseconds;

inline constexpr Nanoseconds never = Nanoseconds::max();  // As a deadline.

inline Nanoseconds monotonic_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace penstock
