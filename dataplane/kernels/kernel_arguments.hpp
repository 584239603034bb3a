// SPDX-License-Identifier: Apache-2.0
// What host and device code say to each other: plain values, read by device compilers too, so no header is included.
//
// Every launch has blocks of `kernel_threads` threads and one block for each entry of its list; there is no shared
// memory. Names and parameters, in order, none optional:
//   penstock_scatter (const ScatterPiece* pieces)                          grid = number of pieces
//   penstock_checksum(const ChecksumTile* tiles, unsigned long long* sums) grid = number of tiles
// Lists and sums lie where the device can read them, sums where it can write them; the caller zeroes the sums first.
#pragma once

namespace penstock {

inline constexpr unsigned int kernel_threads = 256;

// The formats that dataplane/kernels/convert.hpp converts between, and bytes, which are copied.
enum class ElementKind : unsigned char { bytes, f32, f16, bf16, f8_e4m3, f8_e5m2 };

// Elements that lie one after the other in staged memory and in a frame. Pieces of one launch do not overlap.
struct ScatterPiece {
  unsigned long long
      source;  // Address on the device. Any alignment, the destination too; multiples of 4 are fast.
  unsigned long long destination;  // Address on the device.
  unsigned long long elements;     // Bytes, when stored is ElementKind::bytes.
  float scale;                     // Multiplies each element; not read when both kinds are bytes.
  ElementKind stored, wanted;      // Both bytes, or neither.
  unsigned short zero;
};
static_assert(sizeof(ScatterPiece) == 32, "an array element on every compiler");

// A part of a page whose checksum is wanted.
struct ChecksumTile {
  unsigned long long address;     // On the device, a multiple of 8.
  unsigned long long bytes;       // A multiple of 8, except in the last tile of a page.
  unsigned long long first_word;  // The index of the first 64-bit word in the page.
  unsigned int sum;               // Index into sums: the page that the tile belongs to.
  unsigned int zero;
};
static_assert(sizeof(ChecksumTile) == 32, "an array element on every compiler");

}  // namespace penstock
