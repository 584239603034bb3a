// SPDX-License-Identifier: Apache-2.0
// What to read, and where the bytes go, to fill one page.
//
// Rules: a read starts and ends on the file's direct-I/O granule (its end may pass the file's end, then the answer is
// short by exactly that); it never exceeds one slot when it goes through a slot, nor `read_bytes_max` otherwise; no
// read of length 0; every byte of each piece is delivered once. Reads are sorted by file and offset; neighbours in a
// file share a slot, whatever pieces they belong to. A read into the frame touches no byte of another piece; what it
// may write behind needed_bytes, when it passes the file's end, is for the caller to zero again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/core/page_layout.hpp"

namespace penstock {

// REQUIRES: slot_bytes is a multiple of offset_granule, read_bytes_max and the page's size are multiples of both
// granules, and a slot holds two granules and 16 bytes.
struct ReadLimits {
  std::uint64_t slot_bytes = 512 * 1024;
  std::uint64_t read_bytes_max = 1024 * 1024;  // For reads straight into a frame.
  std::uint32_t offset_granule = 512;  // Direct I/O alignment of offset and length; 1 when only cached reads.
  std::uint32_t memory_granule = 512;  // Of the destination's address.
};

// One copy (or conversion) from a filled slot to the frame. A plain copy may go on into the next pieces, where they
// adjoin in the file and in the table; `piece` is then the first.
struct SlotCopy {
  std::uint64_t slot_offset = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t frame_offset = 0;
  std::uint32_t piece = 0;  // Tells stored and wanted dtypes and the scale.
};

struct PlannedRead {
  std::uint32_t file = 0;
  Extent extent = {};              // Aligned to offset_granule.
  std::uint64_t needed_bytes = 0;  // From extent.offset; a completion below it is short.
  bool into_frame = false;         // True: bytes land at frame_offset; false: into a slot, then `copies`.
  std::uint64_t frame_offset = 0;
  std::uint32_t first_copy = 0, copy_count = 0;  // Into ReadPlan::copies.
  bool in_tier_page = false;  // All its needed bytes lie in one tier page; see cut_at_tier_pages.
};

struct ReadPlan {
  std::vector<PlannedRead> reads;
  std::vector<SlotCopy> copies;
  void clear() { reads.clear(), copies.clear(); }
};

// `frame_is_addressable`: the frame can be read into directly (host memory). Fills `plan` for page `index`.
// `file_bytes[f]` bounds file f. REQUIRES: plan is empty.
void plan_page(const PageLayout& layout, std::uint32_t index, std::span<const std::uint64_t> file_bytes,
               const ReadLimits& limits, bool frame_is_addressable, ReadPlan& plan);

// Cuts the reads through slots where a tier page (tier_book.hpp) ends, so that each lies in one. One whose conversion goes on
// over that end stays whole, and out of the tier. REQUIRES: tier_page_bytes is a multiple of all direct granules, and at
// least a slot.
void cut_at_tier_pages(const PageLayout& layout, std::uint64_t tier_page_bytes, ReadPlan& plan);

}  // namespace penstock
