// SPDX-License-Identifier: Apache-2.0
#include "service/policy/frame_shares.hpp"

#include <algorithm>

#include "service/policy/amount.hpp"

namespace penstock {
namespace {

std::uint64_t kept(const FrameShare& one) { return std::min(one.kept_bytes, one.capacity_bytes); }
std::uint64_t used(const FrameShare& one) {
  return std::max(kept(one), std::min(one.frame_bytes, one.capacity_bytes));
}
std::uint64_t whole(const FrameShare& one) { return one.capacity_bytes; }

using Line = std::uint64_t (*)(const FrameShare&);

std::uint64_t sum(std::span<const FrameShare> devices, Line line) {
  std::uint64_t all = 0;
  for (const FrameShare& one : devices) all = saturating_add(all, line(one));
  return all;
}

// Each at the same part of the way from one line to the other.
void share_between(std::uint64_t budget, std::span<FrameShare> devices, Line from, Line to) {
  std::uint64_t rest = saturating_subtract(budget, sum(devices, from));
  std::uint64_t way = saturating_subtract(sum(devices, to), sum(devices, from));
  for (FrameShare& one : devices) {
    const std::uint64_t length = to(one) - from(one);
    const double part = way > 0 ? static_cast<double>(length) / static_cast<double>(way) : 0.0;
    const std::uint64_t share =
        std::min({static_cast<std::uint64_t>(static_cast<double>(rest) * part), length, rest});
    one.allowed_bytes = from(one) + share;
    rest -= share;
    way -= length;
  }
}

}  // namespace

void share_frames(std::uint64_t budget_bytes, std::span<FrameShare> devices) {
  if (budget_bytes >= sum(devices, used)) {
    share_between(budget_bytes, devices, used, whole);
  } else {
    share_between(budget_bytes, devices, kept, used);
  }
}

}  // namespace penstock
