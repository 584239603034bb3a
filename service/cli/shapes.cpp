// SPDX-License-Identifier: Apache-2.0
#include "service/cli/shapes.hpp"

#include <algorithm>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

constexpr Shape shapes[] = {
    {"sdxl", "Stable Diffusion XL base 1.0: UNet, two text encoders, VAE; F16, 6.5 GiB", sdxl_tensors},
    {"flux-dev-fp8", "FLUX.1-dev transformer: matrices in F8_E4M3, vectors in BF16; 11.1 GiB",
     flux_dev_fp8_tensors},
    {"t5-xxl", "T5 1.1 XXL encoder; F16, 9.1 GiB", t5_xxl_tensors},
    {"tiny", "two small layers in nine types, with an empty and a scalar tensor; 0.5 MiB", tiny_tensors},
};

}  // namespace

std::uint64_t ShapeTensor::bytes() const {
  std::uint64_t bits = dtype_bits(dtype);
  for (const std::uint64_t size : shape) CHECK(!__builtin_mul_overflow(bits, size, &bits));
  CHECK(bits % 8 == 0);
  return bits / 8;
}

std::span<const Shape> all_shapes() { return shapes; }

const Shape* find_shape(std::string_view name) {
  const auto found = std::ranges::find_if(shapes, [&](const Shape& shape) { return shape.name == name; });
  return found == std::end(shapes) ? nullptr : &*found;
}

}  // namespace penstock
