// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, with the names and widths of the safetensors reference reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

enum class Dtype : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
inline constexpr int dtype_count = 22;

std::uint32_t dtype_bits(Dtype dtype);
std::string_view dtype_name(Dtype dtype);  // "BF16", as in a safetensors header.
std::optional<Dtype> dtype_from_name(std::string_view name);
// Alignment that a host pointer to this dtype needs, in bytes (1 for packed sub-byte types).
std::uint32_t dtype_alignment(Dtype dtype);
// True for f32, f16, bf16, f8_e4m3 and f8_e5m2: each converts to each (dataplane/kernels/convert.hpp).
bool dtype_is_convertible(Dtype dtype);

}  // namespace penstock
