// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/page_layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/core/checkpoint_parser.hpp"

namespace penstock {
namespace {

bool is_copied(const LayoutPiece& piece) { return piece.stored == piece.wanted; }

std::uint64_t table_end(const LayoutPiece& piece) { return piece.table_offset + piece.table_bytes; }

bool is_known(Dtype dtype) { return static_cast<int>(dtype) < dtype_count; }

// What is wrong with the piece's dtypes, lengths and scale by themselves; empty when nothing is.
std::string wrong_shape(const LayoutPiece& piece) {
  if (!is_known(piece.stored) || !is_known(piece.wanted)) return "has a dtype that does not exist";
  if (is_copied(piece)) {
    if (piece.table_bytes != piece.source.length) {
      return fmt::format("takes {} bytes from the file and fills {}", piece.source.length, piece.table_bytes);
    }
    const std::uint64_t bits = dtype_bits(piece.stored);
    if (bits >= 8 && piece.source.length % (bits / 8) != 0) return "ends inside an element";
    if (piece.scale != 1.0f || piece.scale_source) return "has a scale, and no conversion that applies it";
    return {};
  }
  if (!dtype_is_convertible(piece.stored) || !dtype_is_convertible(piece.wanted)) {
    return fmt::format("wants {} from {}, which is no conversion", dtype_name(piece.wanted),
                       dtype_name(piece.stored));
  }
  const std::uint64_t from = dtype_bits(piece.stored) / 8, to = dtype_bits(piece.wanted) / 8;
  if (piece.source.length % from != 0) return "ends inside an element";
  if (piece.table_bytes % to != 0 || piece.table_bytes / to != piece.source.length / from) {
    return fmt::format("has {} elements in the file and {} bytes of {} to fill", piece.source.length / from,
                       piece.table_bytes, dtype_name(piece.wanted));
  }
  if (piece.table_offset % to != 0) return fmt::format("is not aligned to its elements of {} bytes", to);
  if (!std::isfinite(piece.scale)) return "has a scale that is not finite";
  return {};
}

bool is_inside(const Extent& extent, std::uint64_t bytes) {
  return extent.offset <= bytes && extent.length <= bytes - extent.offset;
}

// What is wrong with where the piece stands; empty when nothing is. `filled`: where the pieces before it end.
std::string wrong_place(const LayoutPiece& piece, std::uint64_t filled,
                        std::span<const std::uint64_t> file_bytes) {
  if (piece.table_offset > table_bytes_max || piece.table_bytes > table_bytes_max - piece.table_offset) {
    return fmt::format("ends after byte {} of the table, the most that is supported", table_bytes_max);
  }
  if (piece.table_offset < filled) {
    return fmt::format("begins at {} of the table, before {} where the pieces before it end",
                       piece.table_offset, filled);
  }
  if (piece.file >= file_bytes.size()) {
    return fmt::format("names file {}, and there are {}", piece.file, file_bytes.size());
  }
  const std::uint64_t bytes = file_bytes[piece.file];
  if (!is_inside(piece.source, bytes)) {
    return fmt::format("takes {} bytes at {} of a file of {}", piece.source.length, piece.source.offset,
                       bytes);
  }
  if (piece.scale_source && (piece.scale_source->length != 4 || !is_inside(*piece.scale_source, bytes))) {
    return fmt::format("has its scale in {} bytes at {} of a file of {}, and wants 4 bytes",
                       piece.scale_source->length, piece.scale_source->offset, bytes);
  }
  return {};
}

}  // namespace

PageLayout::PageLayout(std::vector<LayoutPiece> pieces, std::uint64_t table_bytes, std::uint64_t page_bytes)
    : pieces_(std::move(pieces)), table_bytes_(table_bytes), page_bytes_(page_bytes) {
  CHECK(std::has_single_bit(page_bytes) && page_bytes >= page_bytes_min);
  CHECK(table_bytes <= table_bytes_max);
  identity_ = std::ranges::all_of(pieces_, [](const LayoutPiece& piece) {
    return is_copied(piece) && piece.table_offset == piece.source.offset;
  });
}

PageLayout PageLayout::identity(std::uint64_t file_bytes, std::uint64_t page_bytes) {
  CHECK(file_bytes <= file_bytes_max);
  std::vector<LayoutPiece> pieces;
  if (file_bytes > 0) {
    pieces.push_back({.table_offset = 0, .table_bytes = file_bytes, .source = {0, file_bytes}});
  }
  return PageLayout(std::move(pieces), file_bytes, page_bytes);
}

PageLayout PageLayout::scattered(const CheckpointIndex& index, std::uint64_t alignment,
                                 std::uint64_t page_bytes) {
  CHECK(std::has_single_bit(alignment) && alignment <= page_bytes);
  std::vector<LayoutPiece> pieces;
  pieces.reserve(index.tensors().size());
  std::uint64_t end = 0;
  for (const TensorEntry& tensor : index.tensors()) {
    const std::uint64_t start = round_up(end, alignment);
    pieces.push_back({.table_offset = start,
                      .table_bytes = tensor.extent.length,
                      .source = tensor.extent,
                      .file = tensor.file,
                      .stored = tensor.dtype,
                      .wanted = tensor.dtype});
    end = start + tensor.extent.length;
  }
  return PageLayout(std::move(pieces), end, page_bytes);
}

Outcome<PageLayout> PageLayout::assembled(std::vector<LayoutPiece> pieces,
                                          std::span<const std::uint64_t> file_bytes,
                                          std::uint64_t page_bytes) {
  if (pieces.size() > layout_pieces_max) {
    return fail(FailureKind::invalid_argument,
                fmt::format("the manifest has {} entries, at most {} are supported", pieces.size(),
                            layout_pieces_max));
  }
  std::uint64_t filled = 0;
  for (std::size_t position = 0; position < pieces.size(); ++position) {
    const LayoutPiece& piece = pieces[position];
    std::string wrong = wrong_shape(piece);
    if (wrong.empty()) wrong = wrong_place(piece, filled, file_bytes);
    if (!wrong.empty()) {
      return fail(FailureKind::invalid_argument, fmt::format("entry {} of the manifest {}", position, wrong));
    }
    filled = table_end(piece);
  }
  return PageLayout(std::move(pieces), filled, page_bytes);
}

std::uint32_t PageLayout::pages() const {
  return static_cast<std::uint32_t>(divide_up(table_bytes_, page_bytes_));
}

void PageLayout::pieces_of(std::uint32_t index, std::vector<PagePiece>& out) const {
  CHECK(index < pages());
  const std::uint64_t begin = index * page_bytes_, end = begin + page_bytes_;
  // Pieces are sorted and disjoint, so their ends are sorted, too.
  auto piece = std::ranges::upper_bound(pieces_, begin, {}, table_end);
  for (; piece != pieces_.end() && piece->table_offset < end; ++piece) {
    const std::uint64_t from = std::max(begin, piece->table_offset), to = std::min(end, table_end(*piece));
    if (from >= to) continue;
    // Of a converted piece both are whole elements: it is aligned to its elements, and so is a page.
    std::uint64_t skipped = from - piece->table_offset, length = to - from;
    if (!is_copied(*piece)) {
      const std::uint64_t wanted = dtype_bits(piece->wanted) / 8, stored = dtype_bits(piece->stored) / 8;
      skipped = skipped / wanted * stored;
      length = length / wanted * stored;
    }
    out.push_back({.piece = static_cast<std::uint32_t>(piece - pieces_.begin()),
                   .page_offset = from - begin,
                   .page_bytes = to - from,
                   .source = {.offset = piece->source.offset + skipped, .length = length}});
  }
}

}  // namespace penstock
