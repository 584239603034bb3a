// SPDX-License-Identifier: Apache-2.0
// Files that the service reads into host buffers.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "service/client/api/handles.hpp"

namespace penstock {
namespace {

// A part of the range that one buffer of the service's holds.
struct Share {
  std::uint64_t epoch;
  std::uint64_t buffer;
  std::uint64_t offset;
  std::uint64_t bytes;
};

// Empty: the range leaves the buffer.
std::vector<Share> shares_of(const pst_host_buffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(buffer.mutex);
  std::vector<Share> shares;
  if (offset > buffer.bytes || bytes > buffer.bytes - offset) return shares;
  for (const auto& piece : buffer.pieces) {
    const std::uint64_t from = std::max(offset, piece.at);
    const std::uint64_t to = std::min(offset + bytes, piece.end());
    if (from < to) shares.push_back({piece.epoch, piece.number, from - piece.at, to - from});
  }
  return shares;
}

Outcome<void> read(pst_client& owner, const Share& share, int fd, std::uint64_t file_offset,
                   std::uint64_t timeout_ns) {
  const auto file = owner.readable_files.find(*owner.client, share.epoch, fd);
  if (!file) return tl::unexpected(file.error());
  const auto reply = owner.client->ask_on<wire::Done>(share.epoch,
                                                      wire::ReadFile{.file = (*file)->handle,
                                                                     .file_offset = file_offset,
                                                                     .buffer = share.buffer,
                                                                     .buffer_offset = share.offset,
                                                                     .bytes = share.bytes,
                                                                     .timeout_ns = timeout_ns},
                                                      owner.client->patience_beyond(time_of(timeout_ns)));
  if (!reply) return tl::unexpected(reply.error());
  return (*file)->verify_unchanged(fd);
}

}  // namespace
}  // namespace penstock

using namespace penstock;

pst_status pst_host_buffer_read(pst_host_buffer* buffer, uint64_t offset, int fd, uint64_t file_offset,
                                uint64_t bytes, uint64_t timeout_ns) {
  if (const pst_status status = check_handle(owner_of(buffer)); status != PST_DONE) return status;
  if (bytes == 0) return PST_DONE;
  const std::vector<Share> shares = shares_of(*buffer, offset, bytes);
  if (shares.empty()) {
    return report(buffer->owner, Failure{FailureKind::invalid_argument,
                                         fmt::format("{} bytes at {} leave the buffer", bytes, offset), ""});
  }
  const Nanoseconds deadline = deadline_after(timeout_ns);
  for (const Share& share : shares) {
    const std::uint64_t left =
        deadline == never
            ? timeout_ns
            : static_cast<std::uint64_t>(std::max(deadline - monotonic_now(), Nanoseconds(0)).count());
    const auto done = read(*buffer->owner, share, fd, file_offset, left);
    if (!done) return report(buffer->owner, done.error());
    file_offset += share.bytes;
  }
  return PST_DONE;
}
