// SPDX-License-Identifier: Apache-2.0
#include "tests/support/plan_check.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace penstock::test {
namespace {

// What a byte of the frame holds: file + 1 and the offset of its source byte, or of its element and the byte in it.
using Content = std::uint64_t;
constexpr Content zero = 0, twice = ~Content{0};

Content content(std::uint32_t file, std::uint64_t offset, std::uint64_t byte_of_element) {
  return (Content{file} + 1) << 48 | (offset & ((Content{1} << 40) - 1)) << 8 | byte_of_element;
}

struct Sizes {
  std::uint64_t stored = 1, wanted = 1;
};

Sizes element_sizes(const LayoutPiece& piece) {
  if (piece.stored == piece.wanted) return {};
  return {dtype_bits(piece.stored) / 8, dtype_bits(piece.wanted) / 8};
}

Content content_at(const LayoutPiece& piece, std::uint64_t source_offset, std::uint64_t wanted_byte) {
  const Sizes sizes = element_sizes(piece);
  return content(piece.file, source_offset + wanted_byte / sizes.wanted * sizes.stored,
                 wanted_byte % sizes.wanted);
}

// From the pieces alone, without pieces_of.
std::vector<Content> expected_frame(const PageLayout& layout, std::uint32_t index) {
  std::vector<Content> frame(layout.page_bytes(), zero);
  const std::uint64_t begin = index * layout.page_bytes(), end = begin + layout.page_bytes();
  for (const LayoutPiece& piece : layout.pieces()) {
    const std::uint64_t from = std::max(begin, piece.table_offset);
    const std::uint64_t to = std::min(end, piece.table_offset + piece.table_bytes);
    for (std::uint64_t at = from; at < to; ++at) {
      frame[at - begin] = content_at(piece, piece.source.offset, at - piece.table_offset);
    }
  }
  return frame;
}

class Execution {
 public:
  explicit Execution(const PageLayout& layout) : layout_(layout), frame_(layout.page_bytes(), zero) {}

  std::string run(const PlannedRead& read, const ReadPlan& plan) {
    if (read.into_frame) return run_into_frame(read);
    for (std::uint32_t index = 0; index < read.copy_count; ++index) {
      if (read.first_copy + index >= plan.copies.size()) return "copies past the plan's end";
      if (auto broken = run_copy(read, plan.copies[read.first_copy + index]); !broken.empty()) return broken;
    }
    return read.copy_count == 0 ? "a read that nothing is copied from" : "";
  }
  const std::vector<Content>& frame() const { return frame_; }

 private:
  std::string run_into_frame(const PlannedRead& read) {
    if (read.frame_offset + read.extent.length > frame_.size()) return "a read past the frame's end";
    for (std::uint64_t at = 0; at < read.extent.length; ++at) {
      // Behind the file's end may come anything; the caller zeroes it.
      Content& byte = frame_[read.frame_offset + at];
      const bool counts = at < read.needed_bytes;
      if (byte != zero) return "a read over bytes that another one delivered";
      byte = counts ? content(read.file, read.extent.offset + at, 0) : zero;
    }
    return "";
  }

  std::string run_copy(const PlannedRead& read, const SlotCopy& copy) {
    const LayoutPiece& piece = layout_.pieces()[copy.piece];
    const Sizes sizes = element_sizes(piece);
    if (copy.slot_bytes == 0) return "an empty copy";
    if (copy.slot_offset + copy.slot_bytes > read.needed_bytes) return "a copy of bytes that were not read";
    if (copy.slot_bytes % sizes.stored != 0) return "a copy that cuts an element";
    if (piece.file != read.file) return "a copy from another file";
    const std::uint64_t bytes = copy.slot_bytes / sizes.stored * sizes.wanted;
    if (copy.frame_offset + bytes > frame_.size()) return "a copy past the frame's end";
    for (std::uint64_t at = 0; at < bytes; ++at) {
      Content& byte = frame_[copy.frame_offset + at];
      byte = byte == zero ? content_at(piece, read.extent.offset + copy.slot_offset, at) : twice;
    }
    return "";
  }

  const PageLayout& layout_;
  std::vector<Content> frame_;
};

std::string wrong_read(const PlannedRead& read, std::uint64_t file_bytes, const ReadLimits& limits,
                       bool addressable) {
  const std::uint64_t granule = limits.offset_granule;
  const Extent& extent = read.extent;
  if (extent.length == 0 || read.needed_bytes == 0) return "a read of nothing";
  if (extent.offset % granule != 0 || extent.length % granule != 0) return "a read off the file's granule";
  if (extent.length > (read.into_frame ? limits.read_bytes_max : limits.slot_bytes))
    return "a read above its limit";
  if (read.needed_bytes > extent.length) return "more needed than read";
  if (extent.length - read.needed_bytes >= granule) return "a granule more than needed";
  if (extent.offset + read.needed_bytes > file_bytes) return "bytes needed past the file's end";
  if (read.into_frame && !addressable) return "a read into a frame without an address";
  if (read.into_frame && read.copy_count != 0) return "copies of a read into the frame";
  if (read.into_frame && read.frame_offset % limits.memory_granule != 0)
    return "a read off the memory's granule";
  if (read.into_frame && read.needed_bytes < extent.length &&
      extent.offset + read.needed_bytes != file_bytes) {
    return "a read into the frame that stops before the file's end";
  }
  return "";
}

}  // namespace

std::string broken_promise(const PageLayout& layout, std::uint32_t index,
                           std::span<const std::uint64_t> file_bytes, const ReadLimits& limits,
                           bool frame_is_addressable, const ReadPlan& plan) {
  Execution execution(layout);
  std::size_t copies = 0;
  for (const PlannedRead& read : plan.reads) {
    if (read.file >= file_bytes.size()) return "a read of a file that does not exist";
    std::string broken = wrong_read(read, file_bytes[read.file], limits, frame_is_addressable);
    if (broken.empty()) broken = execution.run(read, plan);
    if (!broken.empty()) {
      return fmt::format("{} at {} of file {}, {} bytes", broken, read.extent.offset, read.file,
                         read.extent.length);
    }
    copies += read.copy_count;
  }
  if (copies != plan.copies.size()) return "copies that belong to no read";
  const auto sorted = std::ranges::is_sorted(
      plan.reads, {}, [](const PlannedRead& read) { return std::pair(read.file, read.extent.offset); });
  if (!sorted) return "reads out of order";
  const std::vector<Content> expected = expected_frame(layout, index);
  const auto [wrong, right] = std::ranges::mismatch(execution.frame(), expected);
  if (right == expected.end()) return "";
  return fmt::format("byte {} of the page holds {:x} and not {:x}", right - expected.begin(), *wrong, *right);
}

}  // namespace penstock::test
