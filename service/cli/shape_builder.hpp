// SPDX-License-Identifier: Apache-2.0
// Words in which layer shapes are written down.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "service/cli/shapes.hpp"

namespace penstock {

enum class Bias : std::uint8_t { none, present };

class ShapeBuilder {
 public:
  // `matrices`: type of tensors of rank 2 and more; `vectors`: of the others.
  ShapeBuilder(Dtype matrices, Dtype vectors) : matrices_(matrices), vectors_(vectors) {}

  void tensor(std::string name, std::initializer_list<std::uint64_t> shape) {
    tensor(std::move(name), shape.size() >= 2 ? matrices_ : vectors_, shape);
  }
  void tensor(std::string name, Dtype dtype, std::initializer_list<std::uint64_t> shape) {
    tensors_.push_back({.name = std::move(name), .dtype = dtype, .shape = shape});
  }
  void linear(const std::string& name, std::uint64_t out, std::uint64_t in, Bias bias = Bias::present) {
    tensor(name + ".weight", {out, in});
    if (bias == Bias::present) tensor(name + ".bias", {out});
  }
  void conv(const std::string& name, std::uint64_t out, std::uint64_t in, std::uint64_t kernel) {
    tensor(name + ".weight", {out, in, kernel, kernel});
    tensor(name + ".bias", {out});
  }
  void norm(const std::string& name, std::uint64_t size) {
    tensor(name + ".weight", {size});
    tensor(name + ".bias", {size});
  }
  std::vector<ShapeTensor> take() { return std::move(tensors_); }

 private:
  Dtype matrices_;
  Dtype vectors_;
  std::vector<ShapeTensor> tensors_;
};

// "a.b.7." from ("a.b", 7).
inline std::string numbered(const std::string& prefix, std::uint64_t number) {
  return prefix + "." + std::to_string(number) + ".";
}

}  // namespace penstock
