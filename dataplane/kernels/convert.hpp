// SPDX-License-Identifier: Apache-2.0
// CPU reference of the device kernels: dtype conversion and checksum. GPU kernels must be bit-equal to it.
//
// Rounding is to nearest, ties to even; overflow of fp8 e4m3 saturates to NaN-free max as the OCP spec's saturating
// mode does, NaN stays NaN; f16 and bf16 overflow to infinity. Subnormals are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/core/dtype.hpp"

namespace penstock {

// f32, f16, bf16, f8_e4m3, f8_e5m2, each to each.
bool convertible(Dtype from, Dtype to);
// REQUIRES: convertible, source holds whole elements, destination.size() == elements * size of `to`; no overlap.
// Each element is widened to f32, multiplied by scale, and narrowed.
void convert(Dtype from, std::span<const std::byte> source, Dtype to, std::span<std::byte> destination, float scale);
// 64-bit checksum of a page's bytes, position-dependent, the same on each device.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace penstock
