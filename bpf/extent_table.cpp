// SPDX-License-Identifier: Apache-2.0
#include "bpf/extent_table.hpp"

#include <algorithm>

namespace penstock {

ExtentTable::ExtentTable(std::uint32_t places) { holes_.push_back({0, places}); }

std::optional<ExtentRun> ExtentTable::take(std::uint64_t pages) {
  std::uint32_t shift = usual_shift;
  const auto extents = [&] { return std::max<std::uint64_t>(1, (pages + (1ULL << shift) - 1) >> shift); };
  while (extents() > run_max) ++shift;
  const auto count = static_cast<std::uint32_t>(extents());
  const auto hole = std::ranges::find_if(holes_, [&](const Hole& one) { return one.count >= count; });
  if (hole == holes_.end()) return std::nullopt;
  const ExtentRun run{hole->first, count, shift};
  hole->first += count;
  hole->count -= count;
  if (hole->count == 0) holes_.erase(hole);
  return run;
}

void ExtentTable::give_back(const ExtentRun& run) {
  Hole merged{run.first, run.count};
  // With its neighbours it is one hole, as young as the youngest.
  for (auto hole = holes_.begin(); hole != holes_.end();) {
    if (hole->first + hole->count == merged.first) {
      merged = {hole->first, hole->count + merged.count};
    } else if (merged.first + merged.count == hole->first) {
      merged.count += hole->count;
    } else {
      ++hole;
      continue;
    }
    hole = holes_.erase(hole);
  }
  holes_.push_back(merged);
}

std::uint32_t ExtentTable::free_places() const {
  std::uint32_t sum = 0;
  for (const Hole& hole : holes_) sum += hole.count;
  return sum;
}

}  // namespace penstock
