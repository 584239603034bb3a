// SPDX-License-Identifier: Apache-2.0
// Byte units, and the text form that configuration and command lines use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/failure.hpp"

namespace penstock {

inline constexpr std::uint64_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib, tib = 1024 * gib;

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t granule) {
  return value / granule * granule;
}
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t granule) {
  return (value + granule - 1) / granule * granule;
}
constexpr std::uint64_t divide_up(std::uint64_t value, std::uint64_t granule) {
  return (value + granule - 1) / granule;
}

// "512MiB", "20 GiB", "4096" (bytes). Decimal units, negatives, fractions and overflow past 2^63-1 are refused with
// FailureKind::invalid_argument; the message says what is allowed.
Outcome<std::uint64_t> parse_bytes(std::string_view text);
// "1s", "250ms", "2min" -> nanoseconds; same refusals.
Outcome<std::uint64_t> parse_duration(std::string_view text);
// 3221225472 -> "3.0 GiB"; independent of the locale.
std::string format_bytes(std::uint64_t bytes);

}  // namespace penstock
