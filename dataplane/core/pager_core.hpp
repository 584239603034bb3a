// SPDX-License-Identifier: Apache-2.0
// Decides which pages load, which are evicted and who is told. Pure: no I/O, no clock, no threads, no foreign header.
//
// Tickets are served first come, first served: only the oldest stalled ticket takes frames, so nobody holds part of a
// demand while waiting for the rest (no hold and wait). Faults go before prefetches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/core/pager_events.hpp"

namespace penstock {

class EvictionPolicy;  // eviction_policy.hpp

// A bounded buffer of the caller. The core stops when it is full and goes on at the next Continue.
class CommandBuffer {
 public:
  explicit CommandBuffer(std::size_t capacity) : capacity_(capacity) { commands_.reserve(capacity); }
  bool full() const { return commands_.size() >= capacity_; }
  void push(const Command& command) { commands_.push_back(command); }
  std::size_t room() const { return capacity_ - commands_.size(); }
  const std::vector<Command>& commands() const { return commands_; }
  void clear() { commands_.clear(); }

 private:
  std::size_t capacity_;
  std::vector<Command> commands_;
};
inline constexpr std::size_t command_buffer_min = 4 * grant_batch_pages;

struct PagerCoreOptions {
  std::uint32_t budget_frames = 0;
  Nanoseconds revoke_deadline = std::chrono::seconds(1);        // Agent mode.
  Nanoseconds cooperative_deadline = std::chrono::seconds(30);  // Cooperative mode, from the first revoke.
};

struct PagerCounts {
  std::uint32_t budget_frames = 0;
  std::uint32_t used_frames = 0;  // Being created, loading, resident, or on their way out.
  std::uint32_t resident_frames = 0;
  std::uint32_t arriving_frames = 0;  // Being created, loading, or copied into.
  std::uint32_t private_frames = 0;
  std::uint32_t stuck_frames = 0;  // Mapped by sessions that missed a revoke deadline.
  std::uint64_t minor_grants = 0;  // Faults on resident pages.
  std::uint64_t major_faults = 0;
  std::uint64_t refaults = 0;
  std::uint64_t evictions = 0;
};

class PagerCore {
 public:
  PagerCore(const PagerCoreOptions& options, std::unique_ptr<EvictionPolicy> policy);
  ~PagerCore();

  // Appends to `commands` what the shell must now do; run them in order. Returns true when there is more to say than
  // fitted: step Continue{} with an emptied buffer. REQUIRES: at least command_buffer_min of room.
  bool step(const Event& event, Nanoseconds now, CommandBuffer& commands);
  // When a Tick is needed next.
  std::optional<Nanoseconds> next_deadline() const;

  PagerCounts counts() const;
  Residency residency(PageKey page) const;
  std::uint32_t resident_frames(TableId table) const;
  // Every numbered invariant of DESIGN.md; CHECKs. O(pages): tests and simulation.
  void verify() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
