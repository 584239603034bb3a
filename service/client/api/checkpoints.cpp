// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "dataplane/base/quote.hpp"
#include "service/client/api/handles.hpp"
#include "service/client/checkpoint_file.hpp"

using namespace penstock;

namespace {

pst_status open_file(pst_client* client, Outcome<CheckpointFile> file, pst_checkpoint** checkpoint) {
  if (!file) return report(client, file.error());
  auto opened = client->client->open(std::move(*file));
  if (!opened) return report(client, opened.error());
  *checkpoint =
      client->checkpoints.add(std::make_unique<pst_checkpoint>(pst_checkpoint{client, std::move(*opened)}));
  return PST_DONE;
}

}  // namespace

pst_status pst_open(pst_client* client, const char* path, pst_checkpoint** checkpoint) {
  if (const pst_status status = check_handle(client, path != nullptr && checkpoint != nullptr);
      status != PST_DONE) {
    return status;
  }
  *checkpoint = nullptr;
  return open_file(client, open_checkpoint_file(path), checkpoint);
}

pst_status pst_open_fd(pst_client* client, int fd, const char* name, pst_checkpoint** checkpoint) {
  if (const pst_status status = check_handle(client, checkpoint != nullptr); status != PST_DONE)
    return status;
  *checkpoint = nullptr;
  return open_file(client, reopen_checkpoint_file(fd, name), checkpoint);
}

void pst_close(pst_checkpoint* checkpoint) {
  if (check_handle(owner_of(checkpoint)) != PST_DONE) return;
  pst_client* const owner = checkpoint->owner;
  if (const auto handle = owner->checkpoints.take(checkpoint))
    owner->client->close(std::move(handle->checkpoint));
}

pst_status pst_checkpoint_describe(const pst_checkpoint* checkpoint, pst_checkpoint_info* info) {
  if (const pst_status status = check_handle(owner_of(checkpoint), info != nullptr); status != PST_DONE)
    return status;
  const Checkpoint& found = *checkpoint->checkpoint;
  pst_checkpoint_info out{};
  found.id().copy(out.id, sizeof out.id - 1);
  out.format = found.index().format.c_str();
  out.bytes = found.file_bytes();
  out.tensor_bytes = found.tensor_bytes();
  out.tensors = static_cast<uint32_t>(found.index().tensors.size());
  out.metadata = static_cast<uint32_t>(found.index().metadata.size());
  const auto handle = checkpoint->owner->client->handle_of(*checkpoint->checkpoint);
  if (handle) out.handle = *handle;  // 0 while there is no service.
  return copy_out(out, info) ? PST_DONE : report_invalid(checkpoint->owner, "a struct without its size");
}

pst_status pst_tensor_at(const pst_checkpoint* checkpoint, uint32_t index, pst_tensor* tensor) {
  if (const pst_status status = check_handle(owner_of(checkpoint), tensor != nullptr); status != PST_DONE)
    return status;
  const std::vector<TensorEntry>& tensors = checkpoint->checkpoint->index().tensors;
  if (index >= tensors.size()) {
    return report(checkpoint->owner,
                  Failure{FailureKind::not_found, fmt::format("there are {} tensors", tensors.size()), ""});
  }
  const TensorEntry& found = tensors[index];
  pst_tensor out{};
  out.rank = static_cast<uint32_t>(found.shape.size());
  out.name = found.name.c_str();
  out.dtype = dtype_name(found.dtype).data();  // From a literal: it ends in NUL.
  out.shape = found.shape.data();
  out.offset = found.extent.offset;
  out.bytes = found.extent.length;
  return copy_out(out, tensor) ? PST_DONE : report_invalid(checkpoint->owner, "a struct without its size");
}

pst_status pst_tensor_find(const pst_checkpoint* checkpoint, const char* name, uint32_t* index) {
  const bool complete = name != nullptr && index != nullptr;
  if (const pst_status status = check_handle(owner_of(checkpoint), complete); status != PST_DONE)
    return status;
  const auto found = checkpoint->checkpoint->find(name);
  if (!found) {
    return report(
        checkpoint->owner,
        Failure{FailureKind::not_found,
                fmt::format("{} has no tensor {}", quote(checkpoint->checkpoint->name()), quote(name)), ""});
  }
  *index = *found;
  return PST_DONE;
}

pst_status pst_metadata_at(const pst_checkpoint* checkpoint, uint32_t index, const char** key,
                           const char** value) {
  const bool complete = key != nullptr && value != nullptr;
  if (const pst_status status = check_handle(owner_of(checkpoint), complete); status != PST_DONE)
    return status;
  const auto& metadata = checkpoint->checkpoint->index().metadata;
  if (index >= metadata.size()) {
    return report(checkpoint->owner,
                  Failure{FailureKind::not_found,
                          fmt::format("there are {} entries of metadata", metadata.size()), ""});
  }
  *key = metadata[index].first.c_str();
  *value = metadata[index].second.c_str();
  return PST_DONE;
}
