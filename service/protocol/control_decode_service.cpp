// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "service/protocol/control_decode.hpp"
#include "service/protocol/failure_kinds.hpp"

namespace penstock::wire {
namespace {

using Answer = Result<ServiceMessage>;

Result<Device> read_device(const pstw_device& wire) {
  Device device;
  device.id = TRY(text_of(wire.id, wire.id_bytes));
  device.kind = TRY(enum_of(wire.kind, DeviceKind::hip, "kind of a device"));
  if (device.id.empty() || wire.reserved != 0) return broken("a device without an id");
  if (!std::has_single_bit(wire.frame_bytes) || wire.frame_bytes < 4096)
    return broken("frame size of a device");
  if (!std::has_single_bit(wire.tensor_alignment)) return broken("tensor alignment of a device");
  device.frame_bytes = wire.frame_bytes;
  device.tensor_alignment = wire.tensor_alignment;
  device.capacity_bytes = wire.capacity_bytes;
  return device;
}

Answer read_hello_reply(const Datagram& datagram) {
  if (datagram.bytes.size() < sizeof(pstw_header) + sizeof(std::uint32_t))
    return broken("a hello is too short");
  HelloReply message;
  message.protocol = copy_at<std::uint32_t>(datagram.bytes, sizeof(pstw_header));
  if (message.protocol != PSTW_PROTOCOL) return ServiceMessage(std::move(message));
  const auto wire = TRY(datagram.whole<pstw_hello_reply>());
  if (wire.devices > PSTW_DEVICES_MAX) return broken("number of devices");
  message.session = wire.session;
  message.version = TRY(text_of(wire.version, wire.version_bytes));
  message.revoke_deadline_ns = wire.revoke_deadline_ns;
  message.cooperative_deadline_ns = wire.cooperative_deadline_ns;
  for (std::uint32_t i = 0; i < wire.devices; ++i)
    message.devices.push_back(TRY(read_device(wire.device[i])));
  const auto unused = std::as_bytes(std::span(wire.device).subspan(wire.devices));
  if (std::any_of(unused.begin(), unused.end(), [](std::byte byte) { return byte != std::byte{0}; })) {
    return broken("a reserved field is used");
  }
  return ServiceMessage(std::move(message));
}

Answer read_refused(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_refused>());
  if (wire.reserved != 0) return broken("a reserved field is used");
  return ServiceMessage(
      Refused{wire.service_protocol, wire.client_protocol, TRY(text_of(wire.text, wire.text_bytes))});
}

Answer read_done(const Datagram& datagram) {
  TRY(datagram.whole<pstw_done>());
  return ServiceMessage(Done{});
}

Answer read_failure(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_failure>());
  if (wire.reserved != 0) return broken("a reserved field is used");
  Failure message;
  message.kind = to_failure_kind(wire.kind);
  message.message = TRY(text_of(wire.message, wire.message_bytes));
  message.hint = TRY(text_of(wire.hint, wire.hint_bytes));
  return ServiceMessage(std::move(message));
}

Answer read_checkpoint_reply(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_checkpoint_reply>(0, 1));
  if (wire.reserved != 0) return broken("a reserved field is used");
  CheckpointReply message;
  message.checkpoint = wire.checkpoint;
  message.id = TRY(text_of(wire.id, sizeof wire.id));
  const bool hex = message.id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) return broken("id of a checkpoint");
  message.files = wire.files;
  message.tensors = wire.tensors;
  message.file_bytes = wire.file_bytes;
  message.tensor_bytes = wire.tensor_bytes;
  message.index_bytes = wire.index_bytes;
  return ServiceMessage(std::move(message));
}

// The numbers of a table must agree before anyone reserves address space by them.
Result<> check_sizes(const pstw_table_reply& wire) {
  if (wire.table == 0 || wire.table == wire.overlay_table) return broken("number of a table");
  if (!std::has_single_bit(wire.page_bytes) || wire.page_bytes < 4096) return broken("page size of a table");
  if (wire.pages == 0 || wire.table_bytes == 0) return broken("an empty table");
  const std::uint64_t pages = (wire.table_bytes - 1) / wire.page_bytes + 1;
  if (pages != wire.pages) return broken("size of a table");
  if (wire.shift_bytes >= wire.page_bytes) return broken("shift of a table");
  return {};
}

Answer read_table_reply(const Datagram& datagram) {
  constexpr std::uint32_t known =
      PSTW_REPLY_OVERLAY_WORDS | PSTW_REPLY_TENSOR_OFFSETS | PSTW_REPLY_DEVICE_SOCKET;
  const auto wire = TRY(datagram.whole<pstw_table_reply>(known, datagram.header.descriptors));
  const auto has = [&](std::uint32_t flag) { return (datagram.header.flags & flag) != 0; };
  TRY(check_sizes(wire));
  if (has(PSTW_REPLY_OVERLAY_WORDS) != (wire.overlay_table != 0)) return broken("words of an overlay");
  if (has(PSTW_REPLY_TENSOR_OFFSETS) != (wire.tensor_offsets != 0)) return broken("offsets of tensors");
  TableReply message;
  message.table = wire.table;
  message.overlay_table = wire.overlay_table;
  message.pages = wire.pages;
  message.layout = TRY(enum_of(wire.layout, Layout::scattered, "layout of a table"));
  if (message.layout == Layout::automatic) return broken("layout of a table");
  message.page_bytes = wire.page_bytes;
  message.table_bytes = wire.table_bytes;
  message.shift_bytes = wire.shift_bytes;
  message.tensor_offsets = wire.tensor_offsets;
  message.device_socket = has(PSTW_REPLY_DEVICE_SOCKET);
  ServiceMessage answer(message);
  if (descriptors_of(answer) != datagram.header.descriptors) {
    return broken("a message has the wrong number of descriptors");
  }
  return answer;
}

Answer read_admit_reply(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_admit_reply>());
  return ServiceMessage(AdmitReply{wire.grant, wire.work_bytes, wire.waited_ns});
}

Answer read_buffer_reply(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_buffer_reply>(0, 1));
  return ServiceMessage(BufferReply{wire.buffer, wire.bytes});
}

Answer read_free_reply(const Datagram& datagram) {
  return ServiceMessage(FreeReply{TRY(datagram.whole<pstw_free_reply>()).freed_bytes});
}

Answer read_file_reply(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_file_reply>());
  return ServiceMessage(FileReply{wire.file, wire.bytes});
}

Answer read_query_reply(const Datagram& datagram) {
  const std::uint32_t came = datagram.header.descriptors;
  const auto wire = TRY(datagram.front<pstw_query_reply>(0, came));
  const auto tail = datagram.bytes.subspan(sizeof wire);
  if (came > 1 || (came == 1) != tail.empty()) return broken("JSON of a reply");
  if (came == 0 && wire.json_bytes != tail.size()) return broken("a message has the wrong size");
  QueryReply message;
  message.json_bytes = wire.json_bytes;
  message.json.assign(reinterpret_cast<const char*>(tail.data()), tail.size());
  if (!is_utf8(message.json) || message.json.find('\0') != std::string::npos)
    return broken("JSON of a reply");
  return ServiceMessage(std::move(message));
}

Answer read_closing(const Datagram& datagram) {
  TRY(datagram.whole<pstw_closing>());
  return ServiceMessage(Closing{});
}

Answer read_pressure(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_pressure>());
  Pressure message;
  message.level = TRY(enum_of(wire.level, PressureLevel::full, "level of pressure"));
  if (wire.device != PSTW_NO_DEVICE) message.device = wire.device;
  message.excess_bytes = wire.excess_bytes;
  return ServiceMessage(message);
}

Answer read_table_gone(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_table_gone>());
  return ServiceMessage(TableGone{wire.table, to_failure_kind(wire.reason)});
}

Answer read_progress(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_progress>());
  return ServiceMessage(Progress{wire.done_bytes, wire.total_bytes});
}

Answer read(const Datagram& datagram) {
  switch (datagram.header.type) {
    case PSTW_HELLO_REPLY: return read_hello_reply(datagram);
    case PSTW_REFUSED: return read_refused(datagram);
    case PSTW_DONE: return read_done(datagram);
    case PSTW_FAILURE: return read_failure(datagram);
    case PSTW_CHECKPOINT_REPLY: return read_checkpoint_reply(datagram);
    case PSTW_TABLE_REPLY: return read_table_reply(datagram);
    case PSTW_ADMIT_REPLY: return read_admit_reply(datagram);
    case PSTW_BUFFER_REPLY: return read_buffer_reply(datagram);
    case PSTW_FREE_REPLY: return read_free_reply(datagram);
    case PSTW_QUERY_REPLY: return read_query_reply(datagram);
    case PSTW_FILE_REPLY: return read_file_reply(datagram);
    case PSTW_CLOSING: return read_closing(datagram);
    case PSTW_PRESSURE: return read_pressure(datagram);
    case PSTW_TABLE_GONE: return read_table_gone(datagram);
    case PSTW_PROGRESS: return read_progress(datagram);
    default: return broken("no message of the service has this type");
  }
}

bool needs_no_request(std::uint16_t type) {
  return type == PSTW_CLOSING || type == PSTW_PRESSURE || type == PSTW_TABLE_GONE;
}

}  // namespace

Result<Decoded<ServiceMessage>> decode_service_message(std::span<const std::byte> bytes,
                                                       std::size_t descriptors) {
  const Datagram datagram = TRY(Datagram::open(bytes, descriptors));
  ServiceMessage message = TRY(read(datagram));
  const bool optional = datagram.header.type == PSTW_FAILURE;
  const bool numbered = datagram.header.request != 0;
  if (!optional && needs_no_request(datagram.header.type) == numbered) return broken("request number");
  return Decoded<ServiceMessage>{datagram.header.request, std::move(message)};
}

}  // namespace penstock::wire
