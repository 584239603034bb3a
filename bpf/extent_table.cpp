// SPDX-License-Identifier: Apache-2.0
#include "bpf/extent_table.hpp"

#include <algorithm>

#include "dataplane/base/check.hpp"

namespace penstock {

ExtentTable::ExtentTable(std::uint32_t places, std::uint32_t files) : files_max_(files) {
  CHECK(files <= places);
  holes_.push_back({0, places});
}

ExtentRun ExtentTable::shape(std::uint64_t pages, std::uint32_t most) {
  std::uint32_t shift = usual_shift;
  const auto extents = [&] { return std::max<std::uint64_t>(1, (pages + (1ULL << shift) - 1) >> shift); };
  while (extents() > most) ++shift;
  return {0, static_cast<std::uint32_t>(extents()), shift};
}

std::optional<ExtentRun> ExtentTable::take(std::uint64_t pages) {
  if (files_ == files_max_) return std::nullopt;
  // A place is kept for each file that may still come; of what is left none takes more than a quarter.
  const std::uint32_t spare = free_places() - (files_max_ - files_);
  const std::uint32_t largest = std::ranges::max_element(holes_, {}, &Hole::count)->count;
  ExtentRun run = shape(pages, std::min({run_max, 1 + spare / 4, largest}));
  const auto hole = std::ranges::find_if(holes_, [&](const Hole& one) { return one.count >= run.count; });
  CHECK(hole != holes_.end());
  run.first = hole->first;
  hole->first += run.count;
  hole->count -= run.count;
  if (hole->count == 0) holes_.erase(hole);
  ++files_;
  return run;
}

void ExtentTable::give_back(const ExtentRun& run) {
  CHECK(files_ > 0);
  --files_;
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
