// SPDX-License-Identifier: Apache-2.0
// The safetensors format: a JSON object that names extents of the bytes after it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/core/checkpoint_index.hpp"

namespace penstock {

// What the JSON says, with extents counted from the data's start, unchecked against each other and the file.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Refuses what is not strict JSON, lacks or repeats a field of a tensor, repeats a name, or has a dtype unknown here.
// Unknown fields are skipped.
Outcome<SafetensorsHeader> read_safetensors_json(std::string_view json);

// Sorts by offset, makes extents absolute, and checks that shapes and dtypes give their lengths and that the tensors
// cover [data_offset, file_bytes) exactly.
Outcome<void> place_tensors(std::vector<TensorEntry>& tensors, std::uint64_t data_offset,
                            std::uint64_t file_bytes);

// Both. `data_offset`: bytes before the data.
Outcome<CheckpointIndex> parse_safetensors(std::string_view json, std::uint64_t data_offset,
                                           std::uint64_t file_bytes);

}  // namespace penstock
