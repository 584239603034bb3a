// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/slow_floats.hpp"

#include <cmath>
#include <limits>

#include "dataplane/base/check.hpp"

namespace penstock::test {
namespace {

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
};

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f8_e4m3: return {4, 3, 7, false};
    case Dtype::f8_e5m2: return {5, 2, 15, true};
    case Dtype::f16: return {5, 10, 15, true};
    case Dtype::bf16: return {8, 7, 127, true};
    case Dtype::f32: return {8, 23, 127, true};
    default: CHECK(false);
  }
  return {};
}

std::uint32_t canonical_nan(Dtype dtype) {
  switch (dtype) {
    case Dtype::f8_e4m3: return 0x7f;
    case Dtype::f8_e5m2: return 0x7e;
    case Dtype::f16: return 0x7e00;
    case Dtype::bf16: return 0x7fc0;
    default: return 0x7fc00000;
  }
}

// The largest number of the format.
double largest(const Format& format) {
  const int top = (1 << format.exponent_bits) - (format.has_infinity ? 2 : 1);
  const double mantissa = format.has_infinity ? 2 - std::ldexp(1, -format.mantissa_bits) : 1.75;
  return std::ldexp(mantissa, top - format.bias);
}

}  // namespace

std::uint32_t code_count(Dtype dtype) { return 1u << dtype_bits(dtype); }

double slow_decode(Dtype dtype, std::uint32_t code) {
  const Format format = format_of(dtype);
  const std::uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(code >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
  const bool negative = (code >> (format.mantissa_bits + format.exponent_bits) & 1) != 0;
  const int top = (1 << format.exponent_bits) - 1;
  double value;
  if (exponent == top && format.has_infinity) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (exponent == top && mantissa == (1u << format.mantissa_bits) - 1) {
    value = std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  } else {
    value =
        std::ldexp(mantissa + (1u << format.mantissa_bits), exponent - format.bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

std::uint32_t slow_encode(Dtype dtype, double value) {
  if (std::isnan(value)) return canonical_nan(dtype);
  const Format format = format_of(dtype);
  const std::uint32_t sign = std::signbit(value) ? 1u << (format.mantissa_bits + format.exponent_bits) : 0;
  const double magnitude = std::fabs(value);
  const std::uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  const std::uint32_t overflow =
      format.has_infinity ? infinity : infinity | ((1u << format.mantissa_bits) - 2);
  if (std::isinf(magnitude)) return overflow | sign;
  // In steps of the last bit at this size; nearbyint rounds ties to even.
  int exponent = magnitude == 0 ? -2000 : std::ilogb(magnitude);
  if (exponent < 1 - format.bias) exponent = 1 - format.bias;
  const double step = std::ldexp(1, exponent - format.mantissa_bits);
  const double rounded = std::nearbyint(magnitude / step) * step;
  if (rounded > largest(format)) return overflow | sign;
  if (rounded < std::ldexp(1, 1 - format.bias)) return static_cast<std::uint32_t>(rounded / step) | sign;
  exponent = std::ilogb(rounded);
  const double mantissa =
      std::ldexp(rounded, format.mantissa_bits - exponent) - std::ldexp(1, format.mantissa_bits);
  const auto biased = static_cast<std::uint32_t>(exponent + format.bias);
  return (biased << format.mantissa_bits | static_cast<std::uint32_t>(mantissa)) | sign;
}

}  // namespace penstock::test
