// SPDX-License-Identifier: Apache-2.0
// Any bytes as a checkpoint: the parser answers, and what it accepts keeps every promise of CheckpointIndex.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/base/check.hpp"
#include "dataplane/core/checkpoint_parser.hpp"
#include "dataplane/core/safetensors.hpp"

namespace penstock {
namespace {

void check_index(const CheckpointIndex& index) {
  std::uint64_t covered = index.data_offset();
  for (const TensorEntry& tensor : index.tensors()) {
    CHECK(tensor.extent.offset == covered);
    covered = tensor.extent.end();
    CHECK(covered >= tensor.extent.offset && covered <= index.file_bytes());
    CHECK(tensor.shape.size() <= tensor_rank_max);
    std::uint64_t bits = dtype_bits(tensor.dtype);
    const bool is_empty = std::ranges::find(tensor.shape, 0u) != tensor.shape.end();
    for (const std::uint64_t size : tensor.shape) {
      if (is_empty) bits = 0;
      if (!is_empty) CHECK(!__builtin_mul_overflow(bits, size, &bits));
    }
    CHECK(bits % 8 == 0 && bits / 8 == tensor.extent.length);
    CHECK(index.find(tensor.name) == &tensor);
  }
  CHECK(covered == index.file_bytes());
}

void check_failure(const Failure& failure) {
  CHECK(!failure.message.empty());
  for (const char c : failure.message) CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

void as_a_file(std::span<const std::byte> file) {
  const auto plan = identify(file.first(std::min<std::size_t>(file.size(), identify_bytes)), file.size());
  if (!plan) return check_failure(plan.error());
  CHECK(plan->header_bytes <= file.size());
  const auto index = parse_header(file.first(plan->header_bytes), file.size());
  if (!index) return check_failure(index.error());
  check_index(*index);
}

// Without the length and with a file that is exactly as long as the tensors say, so that the search gets past both.
void as_json(std::string_view json) {
  auto header = read_safetensors_json(json);
  if (!header) return check_failure(header.error());
  std::uint64_t end = 0;
  for (const TensorEntry& tensor : header->tensors) end = std::max(end, tensor.extent.end());
  const std::uint64_t data_offset = 8 + json.size();
  if (end > file_bytes_max) return;
  const auto index = parse_safetensors(json, data_offset, data_offset + end);
  if (!index) return check_failure(index.error());
  check_index(*index);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  penstock::as_a_file(bytes);
  penstock::as_json({reinterpret_cast<const char*>(data), size});
  return 0;
}
