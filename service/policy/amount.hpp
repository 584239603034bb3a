// SPDX-License-Identifier: Apache-2.0
// Bytes in messages, and sums that stop at the largest number instead of wrapping.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

// Exact, in the largest of MiB, KiB and bytes that keeps it whole: two numbers that differ never look the same.
std::string amount(std::uint64_t bytes);

constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
constexpr std::uint64_t saturating_subtract(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace penstock
