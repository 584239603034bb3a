// SPDX-License-Identifier: Apache-2.0
#include "tests/support/safetensors_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::test {

std::byte patterned(std::uint64_t position) {
  std::uint64_t mixed = (position + 1) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return static_cast<std::byte>(mixed % 255 + 1);
}

std::vector<std::byte> with_header(std::string_view json, std::uint64_t data_bytes) {
  std::vector<std::byte> bytes;
  bytes.reserve(8 + json.size() + data_bytes);
  for (int index = 0; index < 8; ++index) bytes.push_back(static_cast<std::byte>(json.size() >> (8 * index)));
  for (const char c : json) bytes.push_back(static_cast<std::byte>(c));
  for (std::uint64_t position = 0; position < data_bytes; ++position) bytes.push_back(patterned(position));
  return bytes;
}

std::vector<std::byte> safetensors_bytes(const std::vector<TensorSpec>& tensors, std::uint64_t pad_to) {
  std::string json = "{";
  std::uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    std::uint64_t bits = dtype_bits(tensor.dtype);
    for (const std::uint64_t size : tensor.shape) bits *= size;
    json += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() > 1 ? "," : "", tensor.name, dtype_name(tensor.dtype),
                        fmt::join(tensor.shape, ","), offset, offset + bits / 8);
    offset += bits / 8;
  }
  json += "}";
  while ((8 + json.size()) % pad_to != 0) json += ' ';
  return with_header(json, offset);
}

}  // namespace penstock::test
