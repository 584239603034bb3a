// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/read_plan.hpp"

#include <algorithm>
#include <tuple>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

// A smaller stretch of a page goes through a slot, together with its neighbours in the file: one large read and some
// copies cost less than many small reads.
constexpr std::uint64_t frame_read_bytes_min = 64 * kib;
// Bytes that belong to nobody are read along when that saves a read.
constexpr std::uint64_t gap_bytes_max = 32 * kib;

// A stretch of a piece: bytes of one file and where they go. `element` and `element_there` are the sizes of one element
// in the file and in the frame where they are converted, else both 1.
struct Part {
  std::uint32_t file = 0;
  std::uint32_t piece = 0;
  Extent source;
  std::uint64_t frame_offset = 0;
  std::uint64_t element = 1;
  std::uint64_t element_there = 1;

  bool is_copied() const { return element == 1 && element_there == 1; }
  // The part without its first `bytes` source bytes. REQUIRES: whole elements.
  Part after(std::uint64_t bytes) const {
    Part rest = *this;
    rest.source = {.offset = source.offset + bytes, .length = source.length - bytes};
    rest.frame_offset += bytes / element * element_there;
    return rest;
  }
  Part first(std::uint64_t bytes) const {
    Part start = *this;
    start.source.length = bytes;
    return start;
  }
};

class PagePlanner {
 public:
  PagePlanner(const PageLayout& layout, std::span<const std::uint64_t> file_bytes, const ReadLimits& limits,
              ReadPlan& plan)
      : layout_(layout),
        file_bytes_(file_bytes),
        limits_(limits),
        granule_(limits.offset_granule),
        plan_(plan) {
    CHECK(granule_ > 0 && limits.memory_granule > 0);
    CHECK(limits.slot_bytes % granule_ == 0 && limits.slot_bytes >= 2 * granule_ && limits.slot_bytes >= 16);
    CHECK(limits.read_bytes_max % granule_ == 0 && limits.read_bytes_max > 0);
    CHECK(limits.read_bytes_max % limits.memory_granule == 0);
    CHECK(layout.page_bytes() % granule_ == 0 && layout.page_bytes() % limits.memory_granule == 0);
  }

  void plan(std::uint32_t index, bool frame_is_addressable);

 private:
  void read_into_frame(const Part& part, std::uint64_t frame_end);
  void split_for_frame(const Part& part, std::uint64_t next_frame_offset, bool is_alone);
  void read_through_slots();
  Part fill_slot(const Part& part);
  void open_slot(const Part& part);
  void add_copy(const Part& part);

  const PageLayout& layout_;
  const std::span<const std::uint64_t> file_bytes_;
  const ReadLimits& limits_;
  const std::uint64_t granule_;
  ReadPlan& plan_;
  std::vector<Part> slot_parts_;
  bool slot_is_open_ = false;
};

// `frame_end`: where the frame's bytes that this read may touch end; past the part's end only at the end of the file.
void PagePlanner::read_into_frame(const Part& part, std::uint64_t frame_end) {
  Part rest = part;
  while (rest.source.length > 0) {
    const std::uint64_t bytes = std::min(rest.source.length, limits_.read_bytes_max);
    const std::uint64_t aligned = round_up(bytes, granule_);
    CHECK(rest.frame_offset + aligned <= frame_end);
    plan_.reads.push_back({.file = part.file,
                           .extent = {.offset = rest.source.offset, .length = aligned},
                           .needed_bytes = bytes,
                           .into_frame = true,
                           .frame_offset = rest.frame_offset});
    rest = rest.after(bytes);
  }
}

// Reads the middle of the part, which the granule's borders in the file and the frame leave, straight into the frame,
// and leaves both edges to slots; or all of it, where the borders do not fall together or the middle is small.
void PagePlanner::split_for_frame(const Part& part, std::uint64_t next_frame_offset, bool is_alone) {
  const std::uint64_t begin = part.source.offset, end = part.source.end();
  const std::uint64_t from = round_up(begin, granule_);
  std::uint64_t to = round_down(end, granule_);
  const std::uint64_t past = round_up(end, granule_) - end;
  // The last granule of a file is read past its end, if the frame has room for it.
  const bool takes_end =
      end == file_bytes_[part.file] && next_frame_offset - part.frame_offset >= end - begin + past;
  if (takes_end) to = end;
  const std::uint64_t frame_from = part.frame_offset + (from - begin);
  const bool fits = part.is_copied() && from < to && frame_from % limits_.memory_granule == 0;
  if (!fits || (!is_alone && to - from < frame_read_bytes_min)) {
    slot_parts_.push_back(part);
    return;
  }
  const Part middle = part.after(from - begin).first(to - from);
  read_into_frame(middle, frame_from + round_up(to - from, granule_));
  if (from > begin) slot_parts_.push_back(part.first(from - begin));
  if (to < end) slot_parts_.push_back(part.after(to - begin));
}

void PagePlanner::open_slot(const Part& part) {
  plan_.reads.push_back({.file = part.file,
                         .extent = {.offset = round_down(part.source.offset, granule_), .length = 0},
                         .first_copy = static_cast<std::uint32_t>(plan_.copies.size())});
  slot_is_open_ = true;
}

// One more stretch out of the open slot; it grows the last copy where both are plain copies and adjoin on both sides.
void PagePlanner::add_copy(const Part& part) {
  PlannedRead& read = plan_.reads.back();
  const std::uint64_t slot_offset = part.source.offset - read.extent.offset;
  read.needed_bytes = std::max(read.needed_bytes, slot_offset + part.source.length);
  read.extent.length = round_up(read.needed_bytes, granule_);
  if (read.copy_count > 0) {
    SlotCopy& last = plan_.copies.back();
    const LayoutPiece& piece = layout_.pieces()[last.piece];
    const bool adjoins = last.slot_offset + last.slot_bytes == slot_offset &&
                         last.frame_offset + last.slot_bytes == part.frame_offset;
    if (adjoins && part.is_copied() && piece.stored == piece.wanted) {
      last.slot_bytes += part.source.length;
      return;
    }
  }
  plan_.copies.push_back({.slot_offset = slot_offset,
                          .slot_bytes = part.source.length,
                          .frame_offset = part.frame_offset,
                          .piece = part.piece});
  ++read.copy_count;
}

// Takes as much of the part as the open slot, or a new one, holds; returns what is left.
Part PagePlanner::fill_slot(const Part& part) {
  if (slot_is_open_) {
    const PlannedRead& read = plan_.reads.back();
    const std::uint64_t filled = read.extent.offset + read.needed_bytes;
    const bool is_near = read.file == part.file && part.source.offset >= read.extent.offset &&
                         part.source.offset <= filled + gap_bytes_max;
    slot_is_open_ = is_near && part.source.offset + part.element <= read.extent.offset + limits_.slot_bytes;
  }
  if (!slot_is_open_) open_slot(part);
  const std::uint64_t room = plan_.reads.back().extent.offset + limits_.slot_bytes - part.source.offset;
  const std::uint64_t bytes = round_down(std::min(room, part.source.length), part.element);
  CHECK(bytes > 0);
  add_copy(part.first(bytes));
  return part.after(bytes);
}

void PagePlanner::read_through_slots() {
  std::ranges::sort(slot_parts_, {}, [](const Part& part) {
    return std::tuple(part.file, part.source.offset, part.frame_offset);
  });
  for (Part part : slot_parts_) {
    while (part.source.length > 0) part = fill_slot(part);
  }
}

void PagePlanner::plan(std::uint32_t index, bool frame_is_addressable) {
  std::vector<PagePiece> pieces;
  layout_.pieces_of(index, pieces);
  for (std::size_t position = 0; position < pieces.size(); ++position) {
    const PagePiece& page_piece = pieces[position];
    const LayoutPiece& piece = layout_.pieces()[page_piece.piece];
    CHECK(piece.file < file_bytes_.size() && page_piece.source.end() <= file_bytes_[piece.file]);
    Part part{.file = piece.file,
              .piece = page_piece.piece,
              .source = page_piece.source,
              .frame_offset = page_piece.page_offset};
    if (piece.stored != piece.wanted) {
      part.element = dtype_bits(piece.stored) / 8;
      part.element_there = dtype_bits(piece.wanted) / 8;
    }
    const std::uint64_t next =
        position + 1 < pieces.size() ? pieces[position + 1].page_offset : layout_.page_bytes();
    if (frame_is_addressable) {
      split_for_frame(part, next, pieces.size() == 1);
    } else {
      slot_parts_.push_back(part);
    }
  }
  read_through_slots();
  std::ranges::stable_sort(plan_.reads, {},
                           [](const PlannedRead& read) { return std::tuple(read.file, read.extent.offset); });
}

}  // namespace

void plan_page(const PageLayout& layout, std::uint32_t index, std::span<const std::uint64_t> file_bytes,
               const ReadLimits& limits, bool frame_is_addressable, ReadPlan& plan) {
  CHECK(plan.reads.empty() && plan.copies.empty());
  PagePlanner(layout, file_bytes, limits, plan).plan(index, frame_is_addressable);
}

}  // namespace penstock
