// SPDX-License-Identifier: Apache-2.0
// Session: opening and closing checkpoints.
#include <fmt/format.h>

#include "service/control/session.hpp"
#include "service/protocol/index_blob.hpp"
#include "service/protocol/sealed_blob.hpp"

namespace penstock {
namespace {

struct Blob {
  UniqueFd fd;
  std::uint64_t bytes = 0;
};

Result<Blob> make_index(const Checkpoint& checkpoint) {
  const CheckpointIndex& index = *checkpoint.index;
  const auto bytes = TRY(build_index_blob(
      {.format = index.format(),
       .files = {{.name = checkpoint.name, .bytes = index.file_bytes(), .data_offset = index.data_offset()}},
       .tensors = index.tensors(),
       .metadata = index.metadata()}));
  return Blob{TRY(make_sealed_blob("penstock-index", bytes)), bytes.size()};
}

}  // namespace

void Session::on(std::uint64_t request, wire::OpenCheckpoint&& open, UniqueFds&& fds) {
  if (open.more || open.files.size() != 1) {
    return refuse(request, {FailureKind::not_built, "checkpoints of more than one file are not built yet",
                            "open the files one by one"});
  }
  UniqueFd cached = fds.take(0);
  UniqueFd direct = open.files[0].direct ? fds.take(1) : UniqueFd();
  service_.checkpoints.open(
      std::move(cached), std::move(direct), open.name.empty() ? open.files[0].name : open.name,
      [self = shared_from_this(), request](Outcome<std::shared_ptr<Checkpoint>> opened) {
        if (self->alive()) self->checkpoint_opened(request, std::move(opened));
      });
}

void Session::checkpoint_opened(std::uint64_t request, Outcome<std::shared_ptr<Checkpoint>> opened) {
  if (!opened) {
    service_.decide("refuse", fmt::format("client {}", raw(id_)), 0, failure_kind_name(opened.error().kind),
                    {});
    return refuse(request, opened.error());
  }
  const Checkpoint& checkpoint = **opened;
  const CheckpointIndex& index = *checkpoint.index;
  auto blob = make_index(checkpoint);
  if (!blob) {
    return refuse(request,
                  {blob.error().code == Errc::invalid ? FailureKind::unsupported : FailureKind::exhausted,
                   fmt::format("the index of {} can't be sent: {}", checkpoint.name, blob.error().operation),
                   "raise LimitNOFILE= or the memory limit of the service"});
  }
  const std::uint64_t handle = ++last_handle_;
  ++(*opened)->sessions;
  (*opened)->unwanted = false;
  checkpoints_.emplace(handle, *opened);
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(blob->fd));
  answer(request,
         wire::CheckpointReply{.checkpoint = handle,
                               .id = checkpoint.id,
                               .files = 1,
                               .tensors = static_cast<std::uint32_t>(index.tensors().size()),
                               .file_bytes = index.file_bytes(),
                               .tensor_bytes = index.tensor_bytes(),
                               .index_bytes = blob->bytes},
         std::move(fds));
  service_.drop_idle();
}

void Session::on(std::uint64_t request, wire::CloseCheckpoint&& close, UniqueFds&&) {
  const auto found = checkpoints_.find(close.checkpoint);
  if (found == checkpoints_.end()) {
    return refuse(request, {FailureKind::not_found,
                            fmt::format("checkpoint {} is not open here", close.checkpoint), ""});
  }
  for (const auto& [number, open] : tables_) {
    if (open.checkpoint == close.checkpoint) {
      return refuse(request,
                    {FailureKind::busy, fmt::format("table {} of the checkpoint is still open", raw(number)),
                     "close its tables first"});
    }
  }
  --found->second->sessions;
  checkpoints_.erase(found);
  answer(request, wire::Done{});
  service_.drop_idle();
}

}  // namespace penstock
