// SPDX-License-Identifier: Apache-2.0
// Two documents that travel in sealed memfds: the index of a checkpoint and the manifest of an assembled
// table. Plain C11, also valid C++. Little-endian, every section 8-byte aligned, reserved fields zero.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
  PSTW_INDEX_MAGIC = 0x49534e50,     // "PNSI"
  PSTW_MANIFEST_MAGIC = 0x4d534e50,  // "PNSM"
  PSTW_BLOB_VERSION = 1,
  PSTW_FORMAT_BYTES_MAX = 16,
  PSTW_RANK_MAX = 64,
  PSTW_TENSORS_MAX = 1 << 22,
  PSTW_METADATA_MAX = 1 << 20,
  PSTW_INDEX_BYTES_MAX = 512 << 20,
  PSTW_PIECES_MAX = 1 << 22,
};

// Index: header, files, tensors, dimensions, metadata, text; in this order, nothing between or after.
struct pstw_index_header {
  uint32_t magic;
  uint32_t version;
  uint64_t bytes;  // Of the whole document; the memfd may be longer.
  uint32_t files;
  uint32_t tensors;
  uint32_t dimensions;
  uint32_t metadata;
  uint64_t text_bytes;
  char format[PSTW_FORMAT_BYTES_MAX];  // "safetensors"; zeros behind it.
  uint64_t reserved;
};
static_assert(sizeof(struct pstw_index_header) == 64, "wire size");

struct pstw_index_text {  // A place in the text section.
  uint32_t at;
  uint32_t bytes;
};

struct pstw_index_file {
  uint64_t bytes;
  uint64_t data_offset;  // First byte after the header.
  struct pstw_index_text name;
};
static_assert(sizeof(struct pstw_index_file) == 24, "wire size");

struct pstw_index_tensor {
  struct pstw_index_text name;
  uint64_t offset;  // In its file.
  uint64_t bytes;
  uint32_t file;
  uint32_t first_dimension;  // Position in the section of dimensions, one uint64_t each.
  uint16_t rank;
  uint16_t dtype;
  uint32_t reserved;
};
static_assert(sizeof(struct pstw_index_tensor) == 40, "wire size");

struct pstw_index_metadata {
  struct pstw_index_text key;
  struct pstw_index_text value;
};
static_assert(sizeof(struct pstw_index_metadata) == 16, "wire size");

// Manifest: header, pieces; nothing between or after.
struct pstw_manifest_header {
  uint32_t magic;
  uint32_t version;
  uint32_t files;   // Of all checkpoints of the open_table message, in their order.
  uint32_t pieces;  // Sorted by table_offset.
};
static_assert(sizeof(struct pstw_manifest_header) == 16, "wire size");

enum { PSTW_PIECE_SCALE_SOURCE = 1 };
struct pstw_manifest_piece {
  uint64_t table_offset;
  uint64_t table_bytes;
  uint64_t source_offset;
  uint64_t source_bytes;
  uint64_t scale_offset;  // With PSTW_PIECE_SCALE_SOURCE: an F32 scalar in the same file; else zero.
  uint32_t file;
  uint32_t scale_bits;  // IEEE single; finite. Exactly 1.0 with PSTW_PIECE_SCALE_SOURCE.
  uint8_t stored;       // Dtype in the file
  uint8_t wanted;       // Dtype in the table
  uint16_t flags;
  uint32_t reserved;
};
static_assert(sizeof(struct pstw_manifest_piece) == 56, "wire size");
