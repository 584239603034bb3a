// SPDX-License-Identifier: Apache-2.0
// Host buffers: address space, and buffers of the service's placed in it one behind the other.
#include <algorithm>

#include <fmt/format.h>

#include "dataplane/base/units.hpp"
#include "service/client/api/handles.hpp"
#include "service/client/fork_gate.hpp"

namespace penstock {
namespace {

// For requests that the service answers without waiting for anybody.
constexpr Nanoseconds usual_patience = std::chrono::seconds(60);

std::uint64_t end_of(const pst_host_buffer& buffer) {
  return buffer.pieces.empty() ? 0 : buffer.pieces.back().end();
}

// Asks for memory behind the last piece. Under the buffer's mutex.
pst_status add_piece(pst_host_buffer& buffer, std::uint64_t bytes) {
  pst_client* const owner = buffer.owner;
  const Nanoseconds patience = owner->client->patience(usual_patience);
  const auto epoch = owner->client->connected(monotonic_now() + patience);
  if (!epoch) return report(owner, epoch.error());
  const auto reply = owner->client->ask_on<wire::BufferReply>(*epoch, wire::CreateBuffer{bytes}, patience);
  if (!reply) return report(owner, reply.error());
  const auto& told = std::get<wire::BufferReply>(reply->message);
  const std::uint64_t at = end_of(buffer);
  const std::uint64_t mapped = round_up(bytes, small_page_bytes);
  if (const auto placed = place_for_this_process(buffer.range, at, reply->fds[0], mapped, Access::read_write);
      !placed) {
    (void)buffer.range.unplace(at, mapped);
    owner->client->post_on(*epoch, wire::FreeBuffer{told.buffer});
    return report(owner, to_failure(placed.error(), "the host buffer can't be mapped"));
  }
  buffer.pieces.push_back({.epoch = *epoch, .number = told.buffer, .at = at, .bytes = mapped});
  return PST_DONE;
}

pst_status grow(pst_host_buffer& buffer, std::uint64_t bytes) {
  if (bytes > buffer.bytes_max || bytes < buffer.bytes) {
    return report(buffer.owner, Failure{FailureKind::invalid_argument,
                                        fmt::format("a buffer of {} bytes and at most {} can't grow to {}",
                                                    buffer.bytes, buffer.bytes_max, bytes),
                                        ""});
  }
  const std::uint64_t end = end_of(buffer);
  if (bytes > end) {
    if (const pst_status status = add_piece(buffer, bytes - end); status != PST_DONE) return status;
  }
  buffer.bytes = bytes;
  return PST_DONE;
}

// What the service takes back must not be touched any more: it is unmapped first.
pst_status cut(pst_host_buffer& buffer, std::uint64_t bytes) {
  pst_client* const owner = buffer.owner;
  const std::uint64_t kept = round_up(bytes, small_page_bytes);
  const std::uint64_t end = end_of(buffer);
  if (kept < end) {
    if (const auto gone = buffer.range.unplace(kept, end - kept); !gone)
      return report(owner, to_failure(gone.error(), "the end of the buffer can't be unmapped"));
  }
  buffer.bytes = bytes;
  while (!buffer.pieces.empty() && buffer.pieces.back().at >= kept) {
    owner->client->post_on(buffer.pieces.back().epoch, wire::FreeBuffer{buffer.pieces.back().number});
    buffer.pieces.pop_back();
  }
  if (kept >= end_of(buffer)) return PST_DONE;
  pst_host_buffer::Piece& last = buffer.pieces.back();
  last.bytes = kept - last.at;
  const auto reply = owner->client->ask_on<wire::Done>(
      last.epoch, wire::TruncateBuffer{last.number, std::min(bytes - last.at, last.bytes)},
      owner->client->patience(usual_patience));
  return reply ? PST_DONE : report(owner, reply.error());
}

}  // namespace
}  // namespace penstock

using namespace penstock;

pst_status pst_host_buffer_reserve(pst_client* client, uint64_t bytes_max, pst_host_buffer** buffer) {
  if (const pst_status status = check_handle(client, buffer != nullptr); status != PST_DONE) return status;
  *buffer = nullptr;
  if (bytes_max == 0 || bytes_max > tib * 128) return report_invalid(client, "no such size of a buffer");
  auto range = Mapping::reserve(round_up(bytes_max, small_page_bytes), small_page_bytes);
  if (!range) return report(client, to_failure(range.error(), "address space for the host buffer"));
  auto made = std::make_unique<pst_host_buffer>();
  made->owner = client;
  made->bytes_max = bytes_max;
  made->range = std::move(*range);
  *buffer = client->buffers.add(std::move(made));
  return PST_DONE;
}

pst_status pst_host_buffer_create(pst_client* client, uint64_t bytes, pst_host_buffer** buffer) {
  pst_host_buffer* made = nullptr;
  if (buffer != nullptr) *buffer = nullptr;
  if (const pst_status status = pst_host_buffer_reserve(client, bytes, &made); status != PST_DONE)
    return status;
  if (const pst_status status = pst_host_buffer_grow(made, bytes); status != PST_DONE) {
    (void)client->buffers.take(made);
    return status;
  }
  if (buffer != nullptr) *buffer = made;
  return PST_DONE;
}

pst_status pst_host_buffer_grow(pst_host_buffer* buffer, uint64_t bytes) {
  if (const pst_status status = check_handle(owner_of(buffer)); status != PST_DONE) return status;
  const std::lock_guard lock(buffer->mutex);
  return grow(*buffer, bytes);
}

void* pst_host_buffer_address(const pst_host_buffer* buffer) {
  return check_handle(owner_of(buffer)) == PST_DONE ? buffer->range.data() : nullptr;
}

uint64_t pst_host_buffer_bytes(const pst_host_buffer* buffer) {
  if (check_handle(owner_of(buffer)) != PST_DONE) return 0;
  const std::lock_guard lock(buffer->mutex);
  return buffer->bytes;
}

pst_status pst_host_buffer_truncate(pst_host_buffer* buffer, uint64_t bytes) {
  if (const pst_status status = check_handle(owner_of(buffer)); status != PST_DONE) return status;
  const std::lock_guard lock(buffer->mutex);
  if (bytes > buffer->bytes) {
    return report(
        buffer->owner,
        Failure{FailureKind::invalid_argument,
                fmt::format("the buffer has {} bytes and can't be cut to {}", buffer->bytes, bytes), ""});
  }
  return cut(*buffer, bytes);
}

void pst_host_buffer_close(pst_host_buffer* buffer) {
  if (check_handle(owner_of(buffer)) != PST_DONE) return;
  pst_client* const owner = buffer->owner;
  const auto handle = owner->buffers.take(buffer);
  if (!handle) return;
  handle->range = Mapping();
  for (const auto& piece : handle->pieces)
    owner->client->post_on(piece.epoch, wire::FreeBuffer{piece.number});
}
