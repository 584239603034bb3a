// SPDX-License-Identifier: Apache-2.0
// Session: files that are read into its host buffers.
#include <fmt/format.h>

#include "service/control/session.hpp"

namespace penstock {
namespace {

Failure no_file(std::uint64_t handle) {
  return {FailureKind::not_found, fmt::format("file {} is not known here", handle), ""};
}

}  // namespace

void Session::drop_files() {
  buffer_reader_.reset();
  files_.clear();
}

void Session::on(std::uint64_t request, wire::AddFile&& add, UniqueFds&& fds) {
  if (files_.size() >= PSTW_READ_FILES_MAX) {
    return refuse(request, {FailureKind::quota, fmt::format("{} files are known already", files_.size()),
                            "drop one of them first"});
  }
  const std::uint64_t handle = ++last_handle_;
  files_.emplace(handle, ReadableFile{add.name, nullptr});
  // A job may be copied before it runs, and a descriptor can't.
  const auto cached = std::make_shared<UniqueFd>(fds.take(0));
  const auto direct = std::make_shared<UniqueFd>(add.direct ? fds.take(1) : UniqueFd());
  service_.opener.run<std::shared_ptr<CheckpointFile>>(
      add.name,
      [cached, direct, disposal = service_.disposal] {
        return disposal->adopt(std::move(*cached), std::move(*direct));
      },
      [self = shared_from_this(), request, handle](Outcome<std::shared_ptr<CheckpointFile>> adopted) {
        if (!self->alive()) return;
        if (!adopted) {
          self->files_.erase(handle);
          return self->refuse(request, adopted.error());
        }
        const std::uint64_t bytes = (*adopted)->identity().bytes;
        self->files_[handle].file = std::move(*adopted);
        self->answer(request, wire::FileReply{.file = handle, .bytes = bytes});
      });
}

void Session::on(std::uint64_t request, wire::DropFile&& drop, UniqueFds&&) {
  const auto found = files_.find(drop.file);
  if (found == files_.end() || !found->second.file) return refuse(request, no_file(drop.file));
  if (buffer_reader_) buffer_reader_->drop(found->second.file);
  files_.erase(found);
  answer(request, wire::Done{});
}

void Session::on(std::uint64_t request, wire::ReadFile&& read, UniqueFds&&) {
  const auto found = files_.find(read.file);
  if (found == files_.end() || !found->second.file) return refuse(request, no_file(read.file));
  const std::uint64_t file_bytes = found->second.file->identity().bytes;
  if (read.file_offset > file_bytes || read.bytes > file_bytes - read.file_offset) {
    return refuse(request, {FailureKind::truncated,
                            fmt::format("{} bytes at {} leave the file of {}", read.bytes, read.file_offset,
                                        file_bytes),
                            "is it still being written?"});
  }
  auto place = service_.host_buffers->place(id_, read.buffer, read.buffer_offset, read.bytes);
  if (!place) return refuse(request, place.error());
  if (!buffer_reader_) {
    auto opened = service_.buffer_readers.open();
    if (!opened) return refuse(request, opened.error());
    buffer_reader_ = std::move(*opened);
  }
  buffer_reader_->read({.request = request,
                        .file = found->second.file,
                        .file_offset = read.file_offset,
                        .bytes = read.bytes,
                        .place = std::move(*place),
                        .deadline = deadline_after(read.timeout_ns)},
                       found->second.name, [self = shared_from_this(), request](Outcome<void> outcome) {
                         // A stop has answered what was open.
                         if (!self->alive() || !self->unanswered_.contains(request)) return;
                         if (!outcome) return self->refuse(request, outcome.error());
                         self->answer(request, wire::Done{});
                       });
}

}  // namespace penstock
