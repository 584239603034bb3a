// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/slot_table.hpp"

#include "dataplane/base/check.hpp"

namespace penstock {

SlotTable::SlotTable(std::uint16_t count) : taken_(count, false) {
  CHECK(count < raw(no_slot));
  free_.reserve(count);
  for (std::uint16_t slot = count; slot > 0; --slot)
    free_.push_back(SlotId{static_cast<std::uint16_t>(slot - 1)});
}

std::optional<SlotId> SlotTable::take() {
  if (free_.empty()) return std::nullopt;
  const SlotId slot = free_.back();
  free_.pop_back();
  CHECK(!taken_[raw(slot)]);
  taken_[raw(slot)] = true;
  return slot;
}

void SlotTable::give_back(SlotId slot) {
  CHECK(is_taken(slot));
  CHECK(free_.size() < taken_.size());
  taken_[raw(slot)] = false;
  free_.push_back(slot);
}

bool SlotTable::is_taken(SlotId slot) const {
  CHECK(raw(slot) < taken_.size());
  return taken_[raw(slot)];
}

}  // namespace penstock
