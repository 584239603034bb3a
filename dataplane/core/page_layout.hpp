// SPDX-License-Identifier: Apache-2.0
// Where each byte of a page table comes from (file and assembled tables).
//
// A layout is a list of pieces sorted by table offset, without overlap; bytes that no piece covers are zero.
// Identity: one piece, table offset = file offset, header included. Scattered: one piece a tensor, aligned.
// Assembled: one piece a manifest entry, with the dtype wanted (D2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/core/checkpoint_index.hpp"
#include "dataplane/core/dtype.hpp"
#include "dataplane/core/extent.hpp"

namespace penstock {

inline constexpr std::uint64_t page_bytes_min = 4096;         // A smaller one is a programming error.
inline constexpr std::uint64_t table_bytes_max = 1ull << 44;  // 16 TiB: pages are counted in 32 bits.
inline constexpr std::size_t layout_pieces_max = 8'000'000;   // As many as a header can have tensors.

// One manifest entry, or one tensor of a scattered layout. `file` indexes the table's own list of files.
struct LayoutPiece {
  std::uint64_t table_offset = 0;  // Bytes, where the (converted) content starts in the table.
  std::uint64_t table_bytes = 0;   // Length there; differs from source.length when dtypes differ.
  Extent source = {};              // In the file.
  std::uint32_t file = 0;
  Dtype stored = Dtype::u8;  // dtype in the file
  Dtype wanted = Dtype::u8;  // dtype in the table; == stored: bytes are copied
  float scale = 1.0f;        // Multiplied in when an fp8 weight with a scale is widened.
  std::optional<Extent> scale_source =
      std::nullopt;  // F32 scalar in the same file that supplies `scale` at load time.
};

// The part of a piece that falls into one page.
struct PagePiece {
  std::uint32_t piece = 0;        // Index into pieces().
  std::uint64_t page_offset = 0;  // Bytes inside the page.
  std::uint64_t page_bytes = 0;
  Extent source = {};  // The matching bytes of the file; whole elements where they are converted.
};

class PageLayout {
 public:
  // REQUIRES, all three: page_bytes is a power of two, at least page_bytes_min.
  // REQUIRES: file_bytes <= file_bytes_max, as the parser guarantees.
  static PageLayout identity(std::uint64_t file_bytes, std::uint64_t page_bytes);
  // Tensors in index order, each aligned to `alignment`, a power of two of at most page_bytes. pieces()[i] is where the
  // index's tensor i went, empty ones included.
  static PageLayout scattered(const CheckpointIndex& index, std::uint64_t alignment,
                              std::uint64_t page_bytes);
  // Validates: sorted, no overlap, whole elements, convertible dtypes, sources inside `file_bytes[file]`. A piece whose
  // dtypes differ is aligned to its wanted element, so that no element straddles two pages; a scale is finite, and
  // given only where there is a conversion that applies it. Refusals name the piece by its position.
  static Outcome<PageLayout> assembled(std::vector<LayoutPiece> pieces,
                                       std::span<const std::uint64_t> file_bytes, std::uint64_t page_bytes);

  std::uint64_t table_bytes() const { return table_bytes_; }
  std::uint64_t page_bytes() const { return page_bytes_; }
  std::uint32_t pages() const;
  const std::vector<LayoutPiece>& pieces() const { return pieces_; }
  // Appends the parts of page `index`, by page offset, none of them empty. O(log pieces + answer).
  // REQUIRES: index < pages().
  void pieces_of(std::uint32_t index, std::vector<PagePiece>& out) const;
  // True when every piece of the table is copied as it is and table offset == source offset (direct reads fit).
  bool is_identity() const { return identity_; }

 private:
  PageLayout(std::vector<LayoutPiece> pieces, std::uint64_t table_bytes, std::uint64_t page_bytes);

  std::vector<LayoutPiece> pieces_;
  std::uint64_t table_bytes_ = 0;
  std::uint64_t page_bytes_ = 0;
  bool identity_ = false;
};

}  // namespace penstock
