// SPDX-License-Identifier: Apache-2.0
// What each of several devices may use of one budget of host memory: host memory as a device, GPUs whose memory is the
// host's. Pure, keeps nothing.
#pragma once

#include <cstdint>
#include <span>

namespace penstock {

// Bytes.
struct FrameShare {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t frame_bytes = 0;    // That exist.
  std::uint64_t kept_bytes = 0;     // Of those, what nobody takes away, and what clients were granted.
  std::uint64_t allowed_bytes = 0;  // The answer.
};

// Each keeps what it uses while the budget is enough for that, and gets of the rest by what its capacity leaves; else each
// gives of what is not kept in the same proportion. The answers' sum is the budget, unless that is less than what is kept
// or more than all capacities. For one device the answer is the budget.
void share_frames(std::uint64_t budget_bytes, std::span<FrameShare> devices);

}  // namespace penstock
