// SPDX-License-Identifier: Apache-2.0
// CPU reference of the device kernels: dtype conversion and checksum. GPU kernels must be bit-equal to it.
//
// Rounding is to nearest, ties to even. Overflow, and infinity, of fp8 e4m3 saturates to its largest number (448), as the
// OCP spec's saturating mode does, for it has no infinity; f16, bf16 and e5m2 overflow to infinity. Subnormals are
// exact. A NaN becomes the canonical quiet NaN without a sign (f32 7fc00000, f16 7e00, bf16 7fc0, e4m3 7f, e5m2 7e):
// processors and GPUs keep different payloads. Equal dtypes with scale 1 are copied bit by bit, whatever they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/core/dtype.hpp"

namespace penstock {

// f32, f16, bf16, f8_e4m3, f8_e5m2, each to each.
bool convertible(Dtype from, Dtype to);
// REQUIRES: from == to and scale == 1, or convertible; source holds whole elements; destination.size() == elements *
// size of `to`; no overlap. Neither needs to be aligned.
// Each element is widened to f32, multiplied by scale (one rounding), and narrowed (one rounding).
void convert(Dtype from, std::span<const std::byte> source, Dtype to, std::span<std::byte> destination,
             float scale);
// 64-bit checksum of a page's bytes, dependent on their positions and their number, the same on each device. Finds
// accidents; it has no key and keeps out nobody who can choose the bytes.
//
// Definition: the bytes are little-endian 64-bit words w[i], the last one filled up with zero bytes. With all sums and
// products modulo 2^64, s = sum over i of mix(w[i] ^ (i + 1) * 0x9e3779b97f4a7c15), in any order; the checksum is
// mix(s ^ length in bytes * 0xd1b54a32d192ed03). mix(x): x ^= x >> 32; x *= 0xbf58476d1ce4e5b9; x ^= x >> 29.
std::uint64_t checksum(std::span<const std::byte> bytes);
// The checksum of a page of `length` bytes from s above, as the device code leaves it.
std::uint64_t checksum_total(std::uint64_t sum, std::uint64_t length);

}  // namespace penstock
