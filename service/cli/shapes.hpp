// SPDX-License-Identifier: Apache-2.0
// The tensors of known models: names, types and sizes as published, without their content.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/core/dtype.hpp"

namespace penstock {

struct ShapeTensor {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;

  std::uint64_t bytes() const;  // REQUIRES: whole bytes that fit in 64 bits, as all shapes here have.
};

struct Shape {
  const char* name;
  const char* summary;
  std::vector<ShapeTensor> (*tensors)();
};

std::span<const Shape> all_shapes();
const Shape* find_shape(std::string_view name);

std::vector<ShapeTensor> sdxl_tensors();
std::vector<ShapeTensor> flux_dev_fp8_tensors();
std::vector<ShapeTensor> t5_xxl_tensors();
std::vector<ShapeTensor> tiny_tensors();

}  // namespace penstock
