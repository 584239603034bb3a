// SPDX-License-Identifier: Apache-2.0
// One device's figures, written by its dataplane thread with relaxed stores, read by anyone. Never resets.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace penstock {

enum class DeviceCondition : std::uint8_t {
  ready,
  recovering,  // Its writer is lost; another one is on its way.
  quarantined,  // Nothing can be loaded until it is found to work again; what is resident stays, unless it was lost.
};

constexpr std::string_view device_condition_name(DeviceCondition condition) {
  switch (condition) {
    case DeviceCondition::ready: return "ready";
    case DeviceCondition::recovering: return "recovering";
    case DeviceCondition::quarantined: return "quarantined";
  }
  return "";
}

// Of the pinned host tier. A snapshot; totals never fall.
struct TierStats {
  std::uint64_t used_bytes = 0;  // Frames that exist or are being made, also those on their way out.
  std::uint64_t held_bytes = 0;  // Of those, pages that can be copied from.
  std::uint64_t budget_bytes = 0, page_bytes = 0;
  std::uint64_t awaited_frames = 0;   // Asked for, and not made yet.
  std::uint64_t unlocked_frames = 0;  // Made so far, that could not be locked.
  std::uint64_t refused_frames = 0;   // Asked for, and not to be had: no headroom, no descriptor.
  std::uint64_t hits = 0, misses = 0, hit_bytes = 0, miss_bytes = 0,
                evictions = 0;  // Of reads; of tier pages.
};

struct PagerStats {
  using Figure = std::atomic<std::uint64_t>;
  Figure capacity_bytes{0}, budget_bytes{0}, used_bytes{0}, resident_bytes{0}, private_bytes{0},
      pinned_bytes{0}, stuck_bytes{0};
  Figure minor_faults{0}, major_faults{0}, refaults{0}, offloaded{0};
  std::array<Figure, 8> evictions{};  // by EvictReason
  Figure direct_bytes{0}, cached_bytes{0}, short_reads{0}, read_errors{0};
  Figure slots_free{0}, slots_busy{0}, ring_bytes{0};
  // Fault latency, from receipt to the sending of the completing grant: bucket i counts < 2^i microseconds; last = more.
  static constexpr int latency_buckets = 25;
  std::array<Figure, latency_buckets> fault_latency{};
  Figure fault_latency_sum_ns{0};
  std::array<Figure, 4> pages{};  // of open tables, by Residency
  Figure corrupt_pages{0};        // Found to differ from what was loaded.
  Figure scrubbed_pages{0};       // Sums that were taken.
  Figure sessions{0}, tables{0}, frames_ready{0};
  std::atomic<DeviceCondition> condition{DeviceCondition::ready};
  Figure writer_losses{0};
  // Turns of the thread. A turn begins before its first answer leaves; once it is published, the figures say what it did.
  Figure turns_begun{0}, turns_published{0};

  // Whoever was answered before this was read: figures that are_of(it) show what the answer was about.
  std::uint64_t newest_turn() const { return turns_begun.load(std::memory_order_acquire); }
  bool are_of(std::uint64_t turn) const { return turns_published.load(std::memory_order_acquire) >= turn; }
};

}  // namespace penstock
