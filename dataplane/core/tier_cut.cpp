// SPDX-License-Identifier: Apache-2.0
// Reads of one tier page each.
#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/core/read_plan.hpp"

namespace penstock {
namespace {

bool is_converted(const PageLayout& layout, const SlotCopy& copy) {
  const LayoutPiece& piece = layout.pieces()[copy.piece];
  return piece.stored != piece.wanted;
}

// Adds the copies of `read` that lie in [from, to) of its slot, as copies of a slot that begins at `from`.
void add_copies(const ReadPlan& plan, const PlannedRead& read, std::uint64_t from, std::uint64_t to,
                PlannedRead& part, ReadPlan& cut) {
  part.first_copy = static_cast<std::uint32_t>(cut.copies.size());
  for (std::uint32_t index = 0; index < read.copy_count; ++index) {
    const SlotCopy& copy = plan.copies[read.first_copy + index];
    const std::uint64_t start = std::max(copy.slot_offset, from);
    const std::uint64_t end = std::min(copy.slot_offset + copy.slot_bytes, to);
    if (start >= end) continue;
    cut.copies.push_back({.slot_offset = start - from,
                          .slot_bytes = end - start,
                          .frame_offset = copy.frame_offset + (start - copy.slot_offset),
                          .piece = copy.piece});
  }
  part.copy_count = static_cast<std::uint32_t>(cut.copies.size()) - part.first_copy;
}

}  // namespace

void cut_at_tier_pages(const PageLayout& layout, std::uint64_t tier_page_bytes, ReadPlan& plan) {
  ReadPlan cut;
  for (const PlannedRead& read : plan.reads) {
    CHECK(!read.into_frame && read.extent.length <= tier_page_bytes);
    const std::uint64_t border = (read.extent.offset / tier_page_bytes + 1) * tier_page_bytes;
    const std::uint64_t before = std::min(border - read.extent.offset, read.needed_bytes);
    bool whole = before == read.needed_bytes;
    bool in_tier = true;
    for (std::uint32_t index = 0; index < read.copy_count && !whole; ++index) {
      const SlotCopy& copy = plan.copies[read.first_copy + index];
      const bool crosses = copy.slot_offset < before && copy.slot_offset + copy.slot_bytes > before;
      if (crosses && is_converted(layout, copy)) {
        whole = true;
        in_tier = false;
      }
    }
    PlannedRead first = read;
    first.in_tier_page = in_tier;
    if (!whole) first.extent.length = first.needed_bytes = before;
    add_copies(plan, read, 0, first.needed_bytes, first, cut);
    cut.reads.push_back(first);
    if (whole) continue;
    PlannedRead second = read;
    second.in_tier_page = true;
    second.extent = {.offset = border, .length = read.extent.length - before};
    second.needed_bytes = read.needed_bytes - before;
    add_copies(plan, read, before, read.needed_bytes, second, cut);
    cut.reads.push_back(second);
  }
  // Reads of manifests that name bytes twice overlap: what was cut off may belong behind the read that follows.
  std::ranges::stable_sort(cut.reads, {},
                           [](const PlannedRead& read) { return std::pair(read.file, read.extent.offset); });
  plan = std::move(cut);
}

}  // namespace penstock
