// SPDX-License-Identifier: Apache-2.0
// Small safetensors files for tests, written independently of the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/core/dtype.hpp"

namespace penstock::test {

struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;
};

// Bytes of a file: length field, `json` as it is, then `data_bytes` bytes of patterned(0 ...).
std::vector<std::byte> with_header(std::string_view json, std::uint64_t data_bytes);
// A valid file with the tensors in the given order. `pad_to`: the data starts on a multiple of it, as writers do with 8.
std::vector<std::byte> safetensors_bytes(const std::vector<TensorSpec>& tensors, std::uint64_t pad_to = 8);
// The byte at `position` of the data. Never 0, so that zeros in a result are bytes that nobody wrote; aperiodic.
std::byte patterned(std::uint64_t position);

}  // namespace penstock::test
