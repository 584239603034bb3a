// SPDX-License-Identifier: Apache-2.0
#include "service/client/checkpoint.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "service/client/status.hpp"
#include "service/protocol/sealed_blob.hpp"

namespace penstock {

Outcome<std::unique_ptr<Checkpoint>> Checkpoint::make(CheckpointFile file, Reply reply) {
  auto& told = std::get<wire::CheckpointReply>(reply.message);
  if (told.index_bytes == 0 || told.index_bytes > PSTW_INDEX_BYTES_MAX) {
    return fail(FailureKind::protocol_violation,
                fmt::format("the service sent an index of {} bytes", told.index_bytes));
  }
  const auto blob = map_sealed_blob(reply.fds[0], told.index_bytes);
  if (!blob) return tl::unexpected(to_failure(blob.error(), "the index of the checkpoint can't be mapped"));
  auto index = parse_index_blob(blob->bytes().first(told.index_bytes));
  if (!index) {
    return fail(FailureKind::protocol_violation,
                fmt::format("the index of the checkpoint: {}", index.error().operation));
  }
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->file_ = std::move(file);
  checkpoint->id_ = std::move(told.id);
  checkpoint->index_ = std::move(*index);
  checkpoint->file_bytes_ = told.file_bytes;
  checkpoint->tensor_bytes_ = told.tensor_bytes;
  checkpoint->handle = told.checkpoint;
  const std::vector<TensorEntry>& tensors = checkpoint->index_.tensors;
  checkpoint->by_name_.resize(tensors.size());
  std::iota(checkpoint->by_name_.begin(), checkpoint->by_name_.end(), 0u);
  std::sort(checkpoint->by_name_.begin(), checkpoint->by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
  return checkpoint;
}

std::optional<std::uint32_t> Checkpoint::find(std::string_view name) const {
  const std::vector<TensorEntry>& tensors = index_.tensors;
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t at, std::string_view wanted) { return tensors[at].name < wanted; });
  if (found == by_name_.end() || tensors[*found].name != name) return std::nullopt;
  return *found;
}

}  // namespace penstock
