// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/control_encode.hpp"
#include "service/protocol/failure_kinds.hpp"

namespace penstock::wire {
namespace {

static_assert(static_cast<int>(DeviceKind::hip) == PSTW_DEVICE_HIP);
static_assert(static_cast<int>(PressureLevel::full) == PSTW_PRESSURE_FULL);

std::uint32_t reply_flags(const TableReply& message) {
  std::uint32_t flags = 0;
  if (message.overlay_table != 0) flags |= PSTW_REPLY_OVERLAY_WORDS;
  if (message.tensor_offsets != 0) flags |= PSTW_REPLY_TENSOR_OFFSETS;
  if (message.device_socket) flags |= PSTW_REPLY_DEVICE_SOCKET;
  return flags;
}

std::uint32_t count_descriptors(const CheckpointReply&) { return 1; }
std::uint32_t count_descriptors(const TableReply& message) {
  return 2u + (message.overlay_table != 0) + (message.tensor_offsets != 0) + message.device_socket;
}
std::uint32_t count_descriptors(const BufferReply&) { return 1; }
std::uint32_t count_descriptors(const QueryReply& message) { return message.json.empty() ? 1 : 0; }
template <class Other>
std::uint32_t count_descriptors(const Other&) {
  return 0;
}

Result<Bytes> write(std::uint64_t request, const HelloReply& message) {
  if (message.devices.size() > PSTW_DEVICES_MAX) return unfit("devices");
  auto wire = start<pstw_hello_reply>(PSTW_HELLO_REPLY, request);
  wire.protocol = message.protocol;
  wire.session = message.session;
  wire.devices = static_cast<std::uint32_t>(message.devices.size());
  wire.version_bytes = put_text(wire.version, message.version);
  wire.revoke_deadline_ns = message.revoke_deadline_ns;
  wire.cooperative_deadline_ns = message.cooperative_deadline_ns;
  for (std::size_t i = 0; i < message.devices.size(); ++i) {
    const Device& device = message.devices[i];
    pstw_device& entry = wire.device[i];
    entry.id_bytes = put_text(entry.id, device.id);
    entry.kind = static_cast<std::uint32_t>(device.kind);
    entry.frame_bytes = device.frame_bytes;
    entry.tensor_alignment = device.tensor_alignment;
    entry.capacity_bytes = device.capacity_bytes;
  }
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const Refused& message) {
  auto wire = start<pstw_refused>(PSTW_REFUSED, request);
  wire.service_protocol = message.service_protocol;
  wire.client_protocol = message.client_protocol;
  wire.text_bytes = put_text(wire.text, message.text);
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const Done&) {
  return finish(start<pstw_done>(PSTW_DONE, request));
}

Result<Bytes> write(std::uint64_t request, const Failure& message) {
  auto wire = start<pstw_failure>(PSTW_FAILURE, request);
  wire.kind = to_number(message.kind);
  wire.message_bytes = put_text(wire.message, message.message);
  wire.hint_bytes = put_text(wire.hint, message.hint);
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const CheckpointReply& message) {
  if (message.id.size() != PSTW_CHECKPOINT_ID_BYTES) return unfit("id of a checkpoint");
  auto wire = start<pstw_checkpoint_reply>(PSTW_CHECKPOINT_REPLY, request, count_descriptors(message));
  wire.checkpoint = message.checkpoint;
  std::memcpy(wire.id, message.id.data(), sizeof wire.id);
  wire.files = message.files;
  wire.tensors = message.tensors;
  wire.file_bytes = message.file_bytes;
  wire.tensor_bytes = message.tensor_bytes;
  wire.index_bytes = message.index_bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const TableReply& message) {
  auto wire =
      start<pstw_table_reply>(PSTW_TABLE_REPLY, request, count_descriptors(message), reply_flags(message));
  wire.table = message.table;
  wire.overlay_table = message.overlay_table;
  wire.pages = message.pages;
  wire.layout = static_cast<std::uint32_t>(message.layout);
  wire.page_bytes = message.page_bytes;
  wire.table_bytes = message.table_bytes;
  wire.shift_bytes = message.shift_bytes;
  wire.tensor_offsets = message.tensor_offsets;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const AdmitReply& message) {
  auto wire = start<pstw_admit_reply>(PSTW_ADMIT_REPLY, request);
  wire.grant = message.grant;
  wire.work_bytes = message.work_bytes;
  wire.waited_ns = message.waited_ns;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const BufferReply& message) {
  auto wire = start<pstw_buffer_reply>(PSTW_BUFFER_REPLY, request, count_descriptors(message));
  wire.buffer = message.buffer;
  wire.bytes = message.bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const FreeReply& message) {
  auto wire = start<pstw_free_reply>(PSTW_FREE_REPLY, request);
  wire.freed_bytes = message.freed_bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const FileReply& message) {
  auto wire = start<pstw_file_reply>(PSTW_FILE_REPLY, request);
  wire.file = message.file;
  wire.bytes = message.bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const QueryReply& message) {
  if (message.json.size() > inline_json_bytes_max || !is_utf8(message.json)) return unfit("JSON of a reply");
  auto wire = start<pstw_query_reply>(PSTW_QUERY_REPLY, request, count_descriptors(message));
  wire.json_bytes = message.json.empty() ? message.json_bytes : message.json.size();
  return finish(wire, std::as_bytes(std::span(message.json)));
}

Result<Bytes> write(std::uint64_t request, const Closing&) {
  return finish(start<pstw_closing>(PSTW_CLOSING, request));
}

Result<Bytes> write(std::uint64_t request, const Pressure& message) {
  auto wire = start<pstw_pressure>(PSTW_PRESSURE, request);
  wire.level = static_cast<std::uint32_t>(message.level);
  wire.device = message.device.value_or(PSTW_NO_DEVICE);
  wire.excess_bytes = message.excess_bytes;
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const TableGone& message) {
  auto wire = start<pstw_table_gone>(PSTW_TABLE_GONE, request);
  wire.table = message.table;
  wire.reason = to_number(message.reason);
  return finish(wire);
}

Result<Bytes> write(std::uint64_t request, const Progress& message) {
  auto wire = start<pstw_progress>(PSTW_PROGRESS, request);
  wire.done_bytes = message.done_bytes;
  wire.total_bytes = message.total_bytes;
  return finish(wire);
}

template <class Message>
constexpr bool is_event = std::is_same_v<Message, Closing> || std::is_same_v<Message, Pressure> ||
                          std::is_same_v<Message, TableGone>;

}  // namespace

std::uint32_t descriptors_of(const ServiceMessage& message) {
  return std::visit([](const auto& one) { return count_descriptors(one); }, message);
}

Result<Bytes> encode(std::uint64_t request, const ServiceMessage& message) {
  return std::visit(
      [&]<class Message>(const Message& one) -> Result<Bytes> {
        // A failure without a number ends the session: the request that broke a rule may have had none.
        const bool optional = std::is_same_v<Message, Failure>;
        if (!optional && is_event<Message> != (request == 0)) return unfit("request number");
        return write(request, one);
      },
      message);
}

}  // namespace penstock::wire
