// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/page_layout.hpp"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "dataplane/base/units.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t page = 4096;

std::vector<PagePiece> pieces_of(const PageLayout& layout, std::uint32_t index) {
  std::vector<PagePiece> out;
  layout.pieces_of(index, out);
  return out;
}

LayoutPiece copied(std::uint64_t table_offset, std::uint64_t source_offset, std::uint64_t bytes,
                   std::uint32_t file = 0) {
  return {.table_offset = table_offset, .table_bytes = bytes, .source = {source_offset, bytes}, .file = file};
}

LayoutPiece widened(std::uint64_t table_offset, std::uint64_t elements) {
  return {.table_offset = table_offset,
          .table_bytes = 2 * elements,
          .source = {7, elements},
          .file = 0,
          .stored = Dtype::f8_e4m3,
          .wanted = Dtype::bf16,
          .scale = 0.5f,
          .scale_source = Extent{.offset = 900, .length = 4}};
}

CheckpointIndex index_of(std::initializer_list<std::uint64_t> sizes) {
  std::vector<TensorEntry> tensors;
  std::uint64_t at = 100;
  for (const std::uint64_t size : sizes) {
    tensors.push_back(
        {.name = std::to_string(tensors.size()), .shape = {size}, .extent = {at, size}, .file = 0});
    at += size;
  }
  return CheckpointIndex("safetensors", at, 100, std::move(tensors), {});
}

TEST(IdentityLayout, MapsEachByteOfTheFileToItself) {
  const PageLayout layout = PageLayout::identity(2 * page + 5, page);
  EXPECT_EQ(layout.pages(), 3u);
  EXPECT_EQ(layout.table_bytes(), 2 * page + 5);
  EXPECT_TRUE(layout.is_identity());
  const auto last = pieces_of(layout, 2);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].page_bytes, 5u);
  EXPECT_EQ(last[0].source, (Extent{2 * page, 5}));
}

TEST(IdentityLayout, OfAnEmptyFileHasNoPages) { EXPECT_EQ(PageLayout::identity(0, page).pages(), 0u); }

TEST(ScatteredLayout, AlignsEachTensorAndKeepsPositions) {
  const CheckpointIndex index = index_of({3, 0, 5000, 7});
  const PageLayout layout = PageLayout::scattered(index, 512, page);
  ASSERT_EQ(layout.pieces().size(), 4u);
  EXPECT_EQ(layout.pieces()[0].table_offset, 0u);
  EXPECT_EQ(layout.pieces()[1].table_offset, 512u);
  EXPECT_EQ(layout.pieces()[2].table_offset, 512u);
  EXPECT_EQ(layout.pieces()[3].table_offset, 512u + 5120u);
  EXPECT_EQ(layout.table_bytes(), 512u + 5120u + 7u);
  EXPECT_FALSE(layout.is_identity());
  for (std::size_t tensor = 0; tensor < 4; ++tensor) {
    EXPECT_EQ(layout.pieces()[tensor].source, index.tensors()[tensor].extent);
  }
  const auto first = pieces_of(layout, 0);
  ASSERT_EQ(first.size(), 2u) << "the empty tensor has no part";
  EXPECT_EQ(first[1].piece, 2u);
  EXPECT_EQ(first[1].page_offset, 512u);
  EXPECT_EQ(first[1].source, (Extent{103, page - 512}));
  const auto second = pieces_of(layout, 1);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].source, (Extent{103 + page - 512, 5000 - (page - 512)}));
  EXPECT_EQ(second[1].page_offset, 512u + 5120u - page);
}

TEST(AssembledLayout, CutsAConvertedPieceBetweenElements) {
  const std::uint64_t files[] = {10'000};
  const auto layout = PageLayout::assembled({widened(page - 6, 10)}, files, page);
  ASSERT_TRUE(layout) << layout.error().message;
  const auto first = pieces_of(*layout, 0);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].page_bytes, 6u);
  EXPECT_EQ(first[0].source, (Extent{7, 3}));
  const auto second = pieces_of(*layout, 1);
  EXPECT_EQ(second[0].page_bytes, 14u);
  EXPECT_EQ(second[0].source, (Extent{10, 7}));
}

TEST(AssembledLayout, IsIdentityOnlyWhereBytesStayAsAndWhereTheyAre) {
  const std::uint64_t files[] = {10'000};
  LayoutPiece piece = copied(0, 0, 10);
  EXPECT_TRUE(PageLayout::assembled({piece, copied(20, 20, 10)}, files, page)->is_identity());
  EXPECT_FALSE(PageLayout::assembled({piece, copied(20, 21, 10)}, files, page)->is_identity());
  piece.table_bytes = 20;
  piece.stored = Dtype::f8_e5m2;
  piece.wanted = Dtype::f16;
  EXPECT_FALSE(PageLayout::assembled({piece}, files, page)->is_identity());
}

TEST(AssembledLayout, AcceptsGapsEmptyPiecesAndSharedSources) {
  const std::uint64_t files[] = {100, 200};
  const auto layout = PageLayout::assembled(
      {copied(0, 10, 20), copied(20, 0, 0), copied(20, 10, 20, 1), copied(3 * page, 10, 20)}, files, page);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->pages(), 4u);
  EXPECT_TRUE(pieces_of(*layout, 1).empty());
  EXPECT_TRUE(PageLayout::assembled({}, files, page));
}

std::string refusal(LayoutPiece piece) {
  const std::uint64_t files[] = {1000};
  const auto layout = PageLayout::assembled({piece}, files, page);
  if (layout) return "accepted";
  EXPECT_EQ(layout.error().kind, FailureKind::invalid_argument);
  EXPECT_EQ(layout.error().message.find("entry 0 of the manifest "), 0u) << layout.error().message;
  return layout.error().message.substr(24);
}

template <class Change>
std::string refusal_of_widened(Change change) {
  LayoutPiece piece = widened(0, 10);
  change(piece);
  return refusal(piece);
}

TEST(AssembledLayout, RefusesSourcesOutsideTheFile) {
  EXPECT_EQ(refusal(copied(0, 0, 1000)), "accepted");
  EXPECT_EQ(refusal(copied(0, 1, 1000)), "takes 1000 bytes at 1 of a file of 1000");
  EXPECT_EQ(refusal(copied(0, UINT64_MAX, 2)), "takes 2 bytes at 18446744073709551615 of a file of 1000");
  EXPECT_EQ(refusal(copied(0, 1001, 0)), "takes 0 bytes at 1001 of a file of 1000");
  EXPECT_EQ(refusal(copied(0, 0, 1, 1)), "names file 1, and there are 1");
}

TEST(AssembledLayout, RefusesTablesThatOverflow) {
  EXPECT_NE(refusal(copied(UINT64_MAX, 0, 1)), "accepted");
  EXPECT_NE(refusal(copied(UINT64_MAX - 10, 0, 100)), "accepted");
  EXPECT_NE(refusal(copied(table_bytes_max, 0, 1)), "accepted");
  EXPECT_EQ(refusal(copied(table_bytes_max - 1, 0, 1)), "accepted");
}

TEST(AssembledLayout, RefusesWrongConversions) {
  EXPECT_EQ(refusal_of_widened([](LayoutPiece&) {}), "accepted");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.wanted = Dtype::i16; }),
            "wants I16 from F8_E4M3, which is no conversion");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.stored = static_cast<Dtype>(200); }),
            "has a dtype that does not exist");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.table_bytes = 22; }),
            "has 10 elements in the file and 22 bytes of BF16 to fill");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.table_bytes = 19; }),
            "has 10 elements in the file and 19 bytes of BF16 to fill");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.table_offset = 1; }),
            "is not aligned to its elements of 2 bytes");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.scale = std::nanf(""); }),
            "has a scale that is not finite");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.scale = std::numeric_limits<float>::infinity(); }),
            "has a scale that is not finite");
  EXPECT_NE(refusal_of_widened([](LayoutPiece& p) { p.scale_source = Extent{900, 8}; }), "accepted");
  EXPECT_NE(refusal_of_widened([](LayoutPiece& p) { p.scale_source = Extent{997, 4}; }), "accepted");
  EXPECT_NE(refusal_of_widened([](LayoutPiece& p) { p.scale_source = Extent{UINT64_MAX, 4}; }), "accepted");
  EXPECT_EQ(refusal_of_widened([](LayoutPiece& p) { p.stored = Dtype::f16, p.source.length = 5; }),
            "ends inside an element");
}

TEST(AssembledLayout, RefusesWrongCopies) {
  LayoutPiece piece = copied(0, 0, 10);
  piece.stored = piece.wanted = Dtype::f32;
  EXPECT_EQ(refusal(piece), "ends inside an element");
  piece.source.length = piece.table_bytes = 12;
  EXPECT_EQ(refusal(piece), "accepted");
  piece.scale = 2;
  EXPECT_EQ(refusal(piece), "has a scale, and no conversion that applies it");
  piece = copied(0, 0, 10);
  piece.table_bytes = 11;
  EXPECT_EQ(refusal(piece), "takes 10 bytes from the file and fills 11");
}

TEST(AssembledLayout, RefusesOverlapsAndDisorder) {
  const std::uint64_t files[] = {1000};
  const auto overlap = PageLayout::assembled({copied(0, 0, 10), copied(9, 0, 10)}, files, page);
  ASSERT_FALSE(overlap);
  EXPECT_EQ(overlap.error().message,
            "entry 1 of the manifest begins at 9 of the table, before 10 where the pieces before it end");
  EXPECT_FALSE(PageLayout::assembled({copied(100, 0, 10), copied(0, 0, 10)}, files, page));
}

}  // namespace
}  // namespace penstock
