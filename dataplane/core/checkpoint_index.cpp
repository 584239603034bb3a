// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/checkpoint_index.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {

std::vector<std::uint32_t> order_by_name(const std::vector<TensorEntry>& tensors) {
  CHECK(tensors.size() < UINT32_MAX);
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

CheckpointIndex::CheckpointIndex(std::string format, std::uint64_t file_bytes, std::uint64_t data_offset,
                                 std::vector<TensorEntry> tensors,
                                 std::vector<std::pair<std::string, std::string>> metadata)
    : format_(std::move(format)),
      file_bytes_(file_bytes),
      data_offset_(data_offset),
      tensors_(std::move(tensors)),
      metadata_(std::move(metadata)),
      by_name_(order_by_name(tensors_)) {
  for (const TensorEntry& tensor : tensors_) tensor_bytes_ += tensor.extent.length;
  for (std::size_t index = 1; index < by_name_.size(); ++index) {
    CHECK(tensors_[by_name_[index - 1]].name < tensors_[by_name_[index]].name);
  }
}

const TensorEntry* CheckpointIndex::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t position, auto wanted) { return tensors_[position].name < wanted; });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

}  // namespace penstock
