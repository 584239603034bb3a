// SPDX-License-Identifier: Apache-2.0
// Which slots of the staging ring are free. Pure bookkeeping; the memory is the ring's.
//
// The slot given back last is taken first: its memory is the likeliest to be in the processor's cache still (measured:
// 2.72 against 2.22 GB/s with 64 slots). Invariant: each slot is free or taken, once; a slot that is given back twice
// or was never taken stops the process.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/ids.hpp"

namespace penstock {

class SlotTable {
 public:
  // Slots 0 ... count-1, all free. REQUIRES: count < no_slot.
  explicit SlotTable(std::uint16_t count);

  // The slot freed last; nothing when all are taken.
  std::optional<SlotId> take();
  // REQUIRES: `slot` is taken.
  void give_back(SlotId slot);

  bool is_taken(SlotId slot) const;
  std::uint16_t count() const { return static_cast<std::uint16_t>(taken_.size()); }
  std::uint16_t free() const { return static_cast<std::uint16_t>(free_.size()); }
  std::uint16_t taken() const { return static_cast<std::uint16_t>(count() - free()); }

 private:
  std::vector<SlotId> free_;  // The next one to take is at the back.
  std::vector<bool> taken_;
};

}  // namespace penstock
