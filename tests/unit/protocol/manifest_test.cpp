// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/manifest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "dataplane/base/memfd.hpp"
#include "service/protocol/sealed_blob.hpp"
#include "tests/support/random.hpp"

namespace penstock {
namespace {

using Bytes = std::vector<std::byte>;

Manifest sample() {
  Manifest manifest;
  manifest.files = 2;
  manifest.pieces = {
      {0, 64, Extent{1000, 64}, 0, Dtype::bf16, Dtype::bf16, 1.0f, std::nullopt},
      {64, 128, Extent{50, 64}, 1, Dtype::f8_e4m3, Dtype::bf16, 1.0f, Extent{20, 4}},
      {512, 16, Extent{0, 8}, 1, Dtype::f8_e4m3, Dtype::bf16, 0.5f, std::nullopt},
  };
  return manifest;
}

Result<Manifest> parse(const Bytes& bytes) {
  const auto exact = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  return parse_manifest(std::span(exact.get(), bytes.size()));
}

template <class Change>
bool refuses_piece(std::size_t index, Change change) {
  Bytes bytes = *build_manifest(sample());
  const std::size_t at = sizeof(pstw_manifest_header) + index * sizeof(pstw_manifest_piece);
  pstw_manifest_piece piece;
  std::memcpy(&piece, bytes.data() + at, sizeof piece);
  change(piece);
  std::memcpy(bytes.data() + at, &piece, sizeof piece);
  return !parse(bytes);
}

TEST(Manifest, GivesBackWhatWasBuilt) {
  const Manifest manifest = sample();
  const auto bytes = build_manifest(manifest);
  ASSERT_TRUE(bytes) << bytes.error().operation;
  const auto parsed = parse(*bytes);
  ASSERT_TRUE(parsed) << parsed.error().operation;
  EXPECT_EQ(parsed->files, 2u);
  ASSERT_EQ(parsed->pieces.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const LayoutPiece& want = manifest.pieces[i];
    const LayoutPiece& got = parsed->pieces[i];
    EXPECT_EQ(got.table_offset, want.table_offset);
    EXPECT_EQ(got.table_bytes, want.table_bytes);
    EXPECT_EQ(got.source, want.source);
    EXPECT_EQ(got.file, want.file);
    EXPECT_EQ(got.stored, want.stored);
    EXPECT_EQ(got.wanted, want.wanted);
    EXPECT_EQ(got.scale, want.scale);
    EXPECT_EQ(got.scale_source, want.scale_source);
  }
  EXPECT_EQ(*build_manifest(*parsed), *bytes);
}

TEST(Manifest, RefusesOtherThanCanonicalBytes) {
  using Piece = pstw_manifest_piece;
  EXPECT_FALSE(refuses_piece(0, [](Piece&) {}));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.file = 2; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.table_bytes = 0; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.table_bytes = 65; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.table_bytes = UINT64_MAX; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.table_offset = 1; }));
  EXPECT_TRUE(refuses_piece(2, [](Piece& piece) { piece.table_offset = UINT64_MAX - 8; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.source_bytes = 0; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.source_bytes = UINT64_MAX; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.stored = dtype_count; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.wanted = 255; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.flags = 2; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.reserved = 1; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.scale_offset = 1; }));
  EXPECT_TRUE(refuses_piece(2, [](Piece& piece) { piece.scale_bits = 0x7f800000; }));
  EXPECT_TRUE(refuses_piece(2, [](Piece& piece) { piece.scale_bits = 0x7fc00001; }));
  EXPECT_TRUE(refuses_piece(1, [](Piece& piece) { piece.scale_bits = 0x3f000000; }));
  EXPECT_TRUE(refuses_piece(1, [](Piece& piece) { piece.scale_offset = UINT64_MAX - 2; }));
}

TEST(Manifest, RefusesAScaleThatNoConversionApplies) {
  const std::string rule = "a scale, and no conversion that applies it";
  Manifest fixed = sample();
  fixed.pieces[0].scale = 0.5f;
  Manifest read = sample();
  read.pieces[0].scale_source = Extent{20, 4};
  for (const Manifest& manifest : {fixed, read}) {
    const auto built = build_manifest(manifest);
    ASSERT_FALSE(built);
    EXPECT_EQ(built.error().operation, rule);
  }
  using Piece = pstw_manifest_piece;
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.scale_bits = 0x3f000000; }));
  EXPECT_TRUE(refuses_piece(0, [](Piece& piece) { piece.flags = PSTW_PIECE_SCALE_SOURCE; }));
  EXPECT_TRUE(refuses_piece(1, [](Piece& piece) { piece.wanted = piece.stored; }));
  EXPECT_FALSE(refuses_piece(2, [](Piece& piece) { piece.scale_bits = 0x40000000; }));
}

TEST(Manifest, RefusesALyingHeader) {
  const Bytes good = *build_manifest(sample());
  const auto refuses = [&](auto change) {
    Bytes bytes = good;
    pstw_manifest_header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return !parse(bytes);
  };
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.magic = 0; }));
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.version = 0; }));
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.files = 0; }));
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.files = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.pieces = 0; }));
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.pieces = 2; }));
  EXPECT_TRUE(refuses([](pstw_manifest_header& header) { header.pieces = UINT32_MAX; }));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(parse(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))));
  }
}

TEST(Manifest, RefusesToBuildWhatIsNotCanonical) {
  Manifest overlapping = sample();
  overlapping.pieces[1].table_offset = 63;
  EXPECT_FALSE(build_manifest(overlapping));
  Manifest infinite = sample();
  infinite.pieces[2].scale = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(build_manifest(infinite));
  Manifest wide_scale = sample();
  wide_scale.pieces[1].scale_source = Extent{20, 8};
  EXPECT_FALSE(build_manifest(wide_scale));
  EXPECT_FALSE(build_manifest(Manifest{}));
}

TEST(Manifest, SurvivesRandomDamage) {
  test::Random random(12);
  const Bytes good = *build_manifest(sample());
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = good;
    const std::uint64_t changes = 1 + random.below(4);
    for (std::uint64_t i = 0; i < changes; ++i)
      bytes[random.below(bytes.size())] = std::byte(random.next() & 0xff);
    // What is accepted is canonical: it is built again to the same bytes.
    const auto parsed = parse(bytes);
    if (parsed) {
      EXPECT_EQ(*build_manifest(*parsed), bytes);
    }
  }
}

TEST(Manifest, TheKeyDependsOnEverythingThatTheTableDependsOn) {
  const Bytes manifest = *build_manifest(sample());
  const std::vector<ManifestFile> files = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
  const ManifestDevice device{"host", 8 << 20, 1};
  const auto key = manifest_key(manifest, files, device);
  EXPECT_EQ(manifest_key(manifest, files, device), key);
  std::vector<ManifestFile> swapped = {files[1], files[0]};
  EXPECT_NE(manifest_key(manifest, swapped, device), key);
  std::vector<ManifestFile> newer = files;
  newer[1].ctime_ns += 1;
  EXPECT_NE(manifest_key(manifest, newer, device), key);
  EXPECT_NE(manifest_key(manifest, files, ManifestDevice{"cuda-00000000", 8 << 20, 1}), key);
  EXPECT_NE(manifest_key(manifest, files, ManifestDevice{"host", 4 << 20, 1}), key);
  EXPECT_NE(manifest_key(manifest, files, ManifestDevice{"host", 8 << 20, 512}), key);
  Manifest other = sample();
  other.pieces[2].scale = 0.25f;
  EXPECT_NE(manifest_key(*build_manifest(other), files, device), key);
}

TEST(SealedBlob, IsReadOnlyAndExactlyWhatWasWritten) {
  const Bytes bytes = *build_manifest(sample());
  const auto fd = make_sealed_blob("test", bytes);
  ASSERT_TRUE(fd);
  const auto mapping = map_sealed_blob(fd->get(), bytes.size());
  ASSERT_TRUE(mapping);
  EXPECT_EQ(std::memcmp(mapping->data(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(Mapping::shared(fd->get(), bytes.size(), Access::read_write).error().code, Errc::denied);
}

TEST(SealedBlob, OneThatCouldStillChangeIsNotMapped) {
  const auto unsealed = create_memfd("test", 4096);
  ASSERT_TRUE(unsealed);
  EXPECT_EQ(map_sealed_blob(unsealed->get(), 4096).error().code, Errc::invalid);
  const auto sealed = make_sealed_blob("test", Bytes(100));
  ASSERT_TRUE(sealed);
  EXPECT_TRUE(map_sealed_blob(sealed->get(), 100));
  EXPECT_EQ(map_sealed_blob(sealed->get(), 101).error().code, Errc::invalid);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const UniqueFd read_end(pipe_ends[0]), write_end(pipe_ends[1]);
  EXPECT_FALSE(map_sealed_blob(read_end.get(), 1));
}

}  // namespace
}  // namespace penstock
