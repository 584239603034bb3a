// SPDX-License-Identifier: Apache-2.0
// The parsed header of a checkpoint: named extents. Plain values, validated by the parser that made them:
// tensors are sorted by offset, lie inside the file, do not overlap and leave no hole; names are unique.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/core/dtype.hpp"
#include "dataplane/core/extent.hpp"

namespace penstock {

inline constexpr std::size_t tensor_rank_max = 64;  // As torch and numpy have it.

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::uint64_t> shape;
  Extent extent;           // Absolute in the file; length may be 0.
  std::uint32_t file = 0;  // Index of the shard; 0 for a single file.
};

// Moves only: an index of a large model is tens of megabytes, and its users share one.
class CheckpointIndex {
 public:
  CheckpointIndex() = default;
  CheckpointIndex(const CheckpointIndex&) = delete;
  CheckpointIndex& operator=(const CheckpointIndex&) = delete;
  CheckpointIndex(CheckpointIndex&&) noexcept = default;
  CheckpointIndex& operator=(CheckpointIndex&&) noexcept = default;
  // REQUIRES: unique names, fewer than 2^32 of them.
  CheckpointIndex(std::string format, std::uint64_t file_bytes, std::uint64_t data_offset,
                  std::vector<TensorEntry> tensors,
                  std::vector<std::pair<std::string, std::string>> metadata);

  const std::string& format() const { return format_; }  // "safetensors"
  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint64_t data_offset() const { return data_offset_; }  // First byte after the header.
  std::uint64_t tensor_bytes() const { return tensor_bytes_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }
  const TensorEntry* find(std::string_view name) const;  // O(log tensors); null when absent.

 private:
  std::string format_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t data_offset_ = 0;
  std::uint64_t tensor_bytes_ = 0;
  std::vector<TensorEntry> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  // Positions in tensors_, by name. Sorted and not hashed: names come from files, and colliding ones must not slow us.
  std::vector<std::uint32_t> by_name_;
};

// The positions of `tensors`, sorted by name; equal names are neighbours.
std::vector<std::uint32_t> order_by_name(const std::vector<TensorEntry>& tensors);

}  // namespace penstock
