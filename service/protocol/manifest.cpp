// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/manifest.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "dataplane/base/check.hpp"
#include "service/protocol/wire.h"
#include "service/protocol/wire_fields.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t scale_bytes = sizeof(float);
// Of all checkpoints of one table.
constexpr std::uint32_t files_max = PSTW_CHECKPOINT_FILES_MAX * PSTW_TABLE_CHECKPOINTS_MAX;

// The rules that make a piece canonical; null when it keeps them. `floor`: where the piece before it ends.
const char* broken_rule(const pstw_manifest_piece& piece, std::uint32_t files, std::uint64_t floor) {
  if (piece.file >= files) return "file of a piece";
  if (piece.table_bytes == 0 || piece.source_bytes == 0) return "a piece is empty";
  if (piece.table_offset < floor) return "pieces overlap or are not sorted";
  if (piece.table_bytes > UINT64_MAX - piece.table_offset) return "a piece wraps";
  if (piece.source_bytes > UINT64_MAX - piece.source_offset) return "a source wraps";
  if (piece.stored >= dtype_count || piece.wanted >= dtype_count) return "dtype of a piece";
  if ((piece.flags & ~PSTW_PIECE_SCALE_SOURCE) != 0 || piece.reserved != 0) return "a reserved field is used";
  const auto scale = std::bit_cast<float>(piece.scale_bits);
  // It would be ignored where bytes are copied, and multiplied in where a kernel takes each piece for a conversion.
  if (piece.stored == piece.wanted && (scale != 1.0f || (piece.flags & PSTW_PIECE_SCALE_SOURCE) != 0))
    return "a scale, and no conversion that applies it";
  if (!std::isfinite(scale)) return "scale of a piece";
  if ((piece.flags & PSTW_PIECE_SCALE_SOURCE) == 0)
    return piece.scale_offset == 0 ? nullptr : "scale of a piece";
  if (scale != 1.0f || piece.scale_offset > UINT64_MAX - scale_bytes) return "scale of a piece";
  return nullptr;
}

pstw_manifest_piece to_wire(const LayoutPiece& piece) {
  pstw_manifest_piece wire{};
  wire.table_offset = piece.table_offset;
  wire.table_bytes = piece.table_bytes;
  wire.source_offset = piece.source.offset;
  wire.source_bytes = piece.source.length;
  wire.file = piece.file;
  wire.scale_bits = std::bit_cast<std::uint32_t>(piece.scale);
  wire.stored = static_cast<std::uint8_t>(piece.stored);
  wire.wanted = static_cast<std::uint8_t>(piece.wanted);
  if (piece.scale_source) {
    wire.flags = PSTW_PIECE_SCALE_SOURCE;
    wire.scale_offset = piece.scale_source->offset;
  }
  return wire;
}

LayoutPiece from_wire(const pstw_manifest_piece& wire) {
  LayoutPiece piece;
  piece.table_offset = wire.table_offset;
  piece.table_bytes = wire.table_bytes;
  piece.source = Extent{.offset = wire.source_offset, .length = wire.source_bytes};
  piece.file = wire.file;
  piece.stored = static_cast<Dtype>(wire.stored);
  piece.wanted = static_cast<Dtype>(wire.wanted);
  piece.scale = std::bit_cast<float>(wire.scale_bits);
  if ((wire.flags & PSTW_PIECE_SCALE_SOURCE) != 0) {
    piece.scale_source = Extent{.offset = wire.scale_offset, .length = scale_bytes};
  }
  return piece;
}

}  // namespace

Result<std::vector<std::byte>> build_manifest(const Manifest& manifest) {
  const auto unfit = [](const char* rule) { return Error{Errc::invalid, 0, rule}; };
  if (manifest.files == 0 || manifest.files > files_max) return unfit("number of files");
  if (manifest.pieces.empty() || manifest.pieces.size() > PSTW_PIECES_MAX) return unfit("number of pieces");
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(pstw_manifest_header) + manifest.pieces.size() * sizeof(pstw_manifest_piece));
  wire::append(bytes, pstw_manifest_header{PSTW_MANIFEST_MAGIC, PSTW_BLOB_VERSION, manifest.files,
                                           static_cast<std::uint32_t>(manifest.pieces.size())});
  std::uint64_t floor = 0;
  for (const LayoutPiece& piece : manifest.pieces) {
    if (piece.scale_source && piece.scale_source->length != scale_bytes) return unfit("scale of a piece");
    const pstw_manifest_piece record = to_wire(piece);
    if (const char* rule = broken_rule(record, manifest.files, floor)) return unfit(rule);
    floor = record.table_offset + record.table_bytes;
    wire::append(bytes, record);
  }
  return bytes;
}

Result<Manifest> parse_manifest(std::span<const std::byte> bytes) {
  const auto corrupt = [](const char* rule) { return Error{Errc::corrupt, 0, rule}; };
  if (bytes.size() < sizeof(pstw_manifest_header)) return corrupt("a manifest is too short");
  const auto header = wire::copy_at<pstw_manifest_header>(bytes, 0);
  if (header.magic != PSTW_MANIFEST_MAGIC) return corrupt("a manifest has no magic number");
  if (header.version != PSTW_BLOB_VERSION) return corrupt("version of a manifest");
  if (header.files == 0 || header.files > files_max) return corrupt("number of files");
  if (header.pieces == 0 || header.pieces > PSTW_PIECES_MAX) return corrupt("number of pieces");
  if (bytes.size() != sizeof header + header.pieces * sizeof(pstw_manifest_piece)) {
    return corrupt("size of a manifest");
  }
  Manifest manifest;
  manifest.files = header.files;
  manifest.pieces.reserve(header.pieces);
  std::uint64_t floor = 0;
  for (std::uint32_t i = 0; i < header.pieces; ++i) {
    const auto record =
        wire::copy_at<pstw_manifest_piece>(bytes, sizeof header + i * sizeof(pstw_manifest_piece));
    if (const char* rule = broken_rule(record, header.files, floor)) return corrupt(rule);
    floor = record.table_offset + record.table_bytes;
    manifest.pieces.push_back(from_wire(record));
  }
  return manifest;
}

Sha256Digest manifest_key(std::span<const std::byte> manifest, std::span<const ManifestFile> files,
                          const ManifestDevice& device) {
  CHECK(device.id.size() <= PSTW_DEVICE_ID_BYTES_MAX);
  static_assert(sizeof(ManifestFile) == 40);
  constexpr std::string_view domain = "penstock assembled table 1\n";
  char id[PSTW_DEVICE_ID_BYTES_MAX] = {};
  std::memcpy(id, device.id.data(), device.id.size());
  const std::uint64_t numbers[] = {device.frame_bytes, device.tensor_alignment};
  Sha256 digest;
  digest.update(std::as_bytes(std::span(domain)));
  digest.update(manifest);
  digest.update(std::as_bytes(files));
  digest.update(std::as_bytes(std::span(id)));
  digest.update(std::as_bytes(std::span(numbers)));
  return digest.finish();
}

}  // namespace penstock
