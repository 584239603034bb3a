// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/dtype.hpp"

#include <array>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

struct Row {
  std::string_view name;
  std::uint32_t bits;
};

// In the order of Dtype, which is the order of the reference reader.
constexpr std::array<Row, dtype_count> rows = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};
static_assert(static_cast<int>(Dtype::u64) + 1 == dtype_count);

const Row& row(Dtype dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  CHECK(index < rows.size());
  return rows[index];
}

}  // namespace

std::uint32_t dtype_bits(Dtype dtype) { return row(dtype).bits; }

std::string_view dtype_name(Dtype dtype) { return row(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (std::size_t index = 0; index < rows.size(); ++index) {
    if (rows[index].name == name) return static_cast<Dtype>(index);
  }
  return std::nullopt;
}

std::uint32_t dtype_alignment(Dtype dtype) {
  const std::uint32_t bits = row(dtype).bits;
  return bits < 8 ? 1 : bits / 8;
}

bool dtype_is_convertible(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16 || dtype == Dtype::f8_e4m3 ||
         dtype == Dtype::f8_e5m2;
}

}  // namespace penstock
