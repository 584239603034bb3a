// SPDX-License-Identifier: Apache-2.0
// The kernels that the fake devices know by name, run on the CPU when their stream gets to them. To add one, add a line
// to the table in fake_kernels.cpp; a name that is not there is answered as not found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "dataplane/device/cuda/cuda_abi.h"

namespace penstock::fake {

struct KernelLaunch {
  int device = 0;
  unsigned grid = 0;
  unsigned block = 0;
  std::vector<std::vector<std::byte>> parameters;

  template <class T>
  T parameter(std::size_t index) const {
    T value;
    std::memcpy(&value, parameters.at(index).data(), sizeof value);
    return value;
  }
  // Runs `body` on device memory, or registered host memory; 0, or the code to return. Not to be nested.
  CudaResult read(std::uint64_t address, std::uint64_t size,
                  const std::function<void(const std::byte*)>& body) const;
  CudaResult write(std::uint64_t address, std::uint64_t size,
                   const std::function<void(std::byte*)>& body) const;
  // A copy of an array of values.
  template <class T>
  CudaResult read_array(std::uint64_t address, std::size_t count, std::vector<T>& values) const {
    values.resize(count);
    return read(address, count * sizeof(T),
                [&](const std::byte* memory) { std::memcpy(values.data(), memory, count * sizeof(T)); });
  }
};

struct UsedRange {
  std::uint64_t address = 0, size = 0;
};

struct FakeKernel {
  std::string_view name;
  std::vector<std::size_t> parameter_bytes;
  CudaResult (*run)(const KernelLaunch& launch);
  // What it will use, as far as is known at the launch.
  std::vector<UsedRange> (*uses)(const KernelLaunch& launch);
};
// Null when there is no such kernel.
const FakeKernel* find_kernel(std::string_view name);

}  // namespace penstock::fake
