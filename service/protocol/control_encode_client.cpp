// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/control_encode.hpp"

namespace penstock::wire {
namespace {

static_assert(static_cast<int>(TableKind::anonymous) == PSTW_TABLE_ANONYMOUS);
static_assert(static_cast<int>(RevokeMode::cooperative) == PSTW_MODE_COOPERATIVE);
static_assert(static_cast<int>(Layout::scattered) == PSTW_LAYOUT_SCATTERED);
static_assert(static_cast<int>(QueryKind::scrub) == PSTW_QUERY_SCRUB);
static_assert(static_cast<int>(HoldingKind::other) == PSTW_HOLDING_OTHER);
static_assert(static_cast<int>(HoldingPlace::disk) == PSTW_PLACE_DISK);

std::uint32_t count_descriptors(const OpenCheckpoint& message) {
  std::uint32_t count = 0;
  for (const OpenFile& file : message.files) count += file.direct ? 2 : 1;
  return count;
}
std::uint32_t count_descriptors(const OpenTable& message) {
  return message.kind == TableKind::assembled ? 1 : 0;
}
std::uint32_t count_descriptors(const AddFile& message) { return message.direct ? 2 : 1; }
template <class Other>
std::uint32_t count_descriptors(const Other&) {
  return 0;
}

Result<Bytes> write(std::uint64_t request, const Hello& message) {
  auto wire = start<pstw_hello>(PSTW_HELLO, request, 0, message.events ? PSTW_HELLO_EVENTS : 0);
  wire.protocol = message.protocol;
  wire.version_bytes = put_text(wire.version, message.version);
  wire.name_bytes = put_text(wire.name, message.name);
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const OpenCheckpoint& message) {
  if (message.files.empty() || message.files.size() > PSTW_OPEN_FILES_MAX)
    return unfit("files of one message");
  auto wire = start<pstw_open_checkpoint>(PSTW_OPEN_CHECKPOINT, request, count_descriptors(message),
                                          message.more ? PSTW_OPEN_MORE : 0);
  wire.files = static_cast<std::uint32_t>(message.files.size());
  wire.name_bytes = put_text(wire.name, message.name);
  Bytes tail;
  for (const OpenFile& file : message.files) {
    pstw_open_file entry{};
    entry.flags = file.direct ? PSTW_FILE_DIRECT : 0;
    entry.name_bytes = put_text(entry.name, file.name);
    append(tail, entry);
  }
  return finish(wire, tail);
}

Result<Bytes> write(std::uint64_t request, const CloseCheckpoint& message) {
  auto wire = start<pstw_close_checkpoint>(PSTW_CLOSE_CHECKPOINT, request);
  wire.checkpoint = message.checkpoint;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const OpenTable& message) {
  if (message.kind == TableKind::overlay) return unfit("an overlay is opened with its table");
  if (message.checkpoints.size() > PSTW_TABLE_CHECKPOINTS_MAX) return unfit("checkpoints of one table");
  auto wire = start<pstw_open_table>(PSTW_OPEN_TABLE, request, count_descriptors(message),
                                     message.overlay ? PSTW_TABLE_OVERLAY : 0);
  wire.device = message.device;
  wire.kind = static_cast<std::uint32_t>(message.kind);
  wire.layout = static_cast<std::uint32_t>(message.layout);
  wire.mode = static_cast<std::uint32_t>(message.mode);
  wire.file = message.file;
  wire.checkpoints = static_cast<std::uint32_t>(message.checkpoints.size());
  wire.bytes = message.bytes;
  wire.manifest_bytes = message.manifest_bytes;
  std::copy(message.checkpoints.begin(), message.checkpoints.end(), wire.checkpoint);
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const CloseTable& message) {
  auto wire = start<pstw_close_table>(PSTW_CLOSE_TABLE, request);
  wire.table = message.table;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const Admit& message) {
  if (message.minimum_work_bytes > message.work_bytes) return unfit("minimum work is above work");
  auto wire = start<pstw_admit>(PSTW_ADMIT, request);
  wire.device = message.device;
  wire.weights_bytes = message.weights_bytes;
  wire.work_bytes = message.work_bytes;
  wire.minimum_work_bytes = message.minimum_work_bytes;
  wire.timeout_ns = message.timeout_ns;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const ReleaseGrant& message) {
  auto wire = start<pstw_release_grant>(PSTW_RELEASE_GRANT, request);
  wire.grant = message.grant;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const CreateBuffer& message) {
  auto wire = start<pstw_create_buffer>(PSTW_CREATE_BUFFER, request);
  wire.bytes = message.bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const TruncateBuffer& message) {
  auto wire = start<pstw_truncate_buffer>(PSTW_TRUNCATE_BUFFER, request);
  wire.buffer = message.buffer;
  wire.bytes = message.bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const FreeBuffer& message) {
  auto wire = start<pstw_free_buffer>(PSTW_FREE_BUFFER, request);
  wire.buffer = message.buffer;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const AddFile& message) {
  auto wire = start<pstw_add_file>(PSTW_ADD_FILE, request, count_descriptors(message),
                                   message.direct ? PSTW_FILE_DIRECT : 0);
  wire.name_bytes = put_text(wire.name, message.name);
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const DropFile& message) {
  auto wire = start<pstw_drop_file>(PSTW_DROP_FILE, request);
  wire.file = message.file;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const ReadFile& message) {
  if (message.bytes == 0) return unfit("a read of no bytes");
  auto wire = start<pstw_read_file>(PSTW_READ_FILE, request);
  wire.file = message.file;
  wire.file_offset = message.file_offset;
  wire.buffer = message.buffer;
  wire.buffer_offset = message.buffer_offset;
  wire.bytes = message.bytes;
  wire.timeout_ns = message.timeout_ns;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const Free& message) {
  auto wire = start<pstw_free>(PSTW_FREE, request);
  wire.device = message.device;
  wire.bytes = message.bytes;
  wire.timeout_ns = message.timeout_ns;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const Query& message) {
  if (message.json.size() > inline_json_bytes_max || !is_utf8(message.json))
    return unfit("arguments of a query");
  auto wire = start<pstw_query>(PSTW_QUERY, request);
  wire.kind = static_cast<std::uint32_t>(message.kind);
  wire.json_bytes = static_cast<std::uint32_t>(message.json.size());
  return finish(wire, std::as_bytes(std::span(message.json)));
}

Result<Bytes> write(std::uint64_t request, const Report& message) {
  if (message.holdings.size() > PSTW_HOLDINGS_MAX) return unfit("holdings of one report");
  auto wire = start<pstw_report>(PSTW_REPORT, request);
  wire.holdings = static_cast<std::uint32_t>(message.holdings.size());
  Bytes tail;
  const Holding* before = nullptr;
  for (const Holding& holding : message.holdings) {
    if ((holding.place == HoldingPlace::device) != holding.device.has_value())
      return unfit("device of a holding");
    if (before != nullptr && holding.key() <= before->key()) return unfit("order of holdings");
    before = &holding;
    pstw_holding entry{};
    entry.kind = static_cast<std::uint32_t>(holding.kind);
    entry.place = static_cast<std::uint32_t>(holding.place);
    entry.device = holding.device.value_or(PSTW_NO_DEVICE);
    entry.bytes = holding.bytes;
    append(tail, entry);
  }
  return finish(wire, tail);
}

Result<Bytes> write(std::uint64_t request, const BookCopy& message) {
  if (message.copy == 0) return unfit("a copy without a number");
  if (message.gpu.size() > PSTW_DEVICE_ID_BYTES_MAX) return unfit("name of a GPU");
  auto wire = start<pstw_book_copy>(PSTW_BOOK_COPY, request, 0, message.exists ? PSTW_COPY_EXISTS : 0);
  wire.gpu_bytes = put_text(wire.gpu, message.gpu);
  wire.copy = message.copy;
  wire.bytes = message.bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const CancelRequest& message) {
  auto wire = start<pstw_cancel>(PSTW_CANCEL, request);
  wire.cancelled = message.cancelled;
  return finish(wire);
}

}  // namespace

std::uint32_t descriptors_of(const ClientMessage& message) {
  return std::visit([](const auto& one) { return count_descriptors(one); }, message);
}

Result<Bytes> encode(std::uint64_t request, const ClientMessage& message) {
  if (request == 0) return unfit("a request without a number");
  return std::visit([&](const auto& one) { return write(request, one); }, message);
}

}  // namespace penstock::wire
