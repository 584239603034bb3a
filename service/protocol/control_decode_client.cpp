// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/control_decode.hpp"

namespace penstock::wire {

Result<Datagram> Datagram::open(std::span<const std::byte> bytes, std::size_t descriptors) {
  if (bytes.size() < sizeof(pstw_header)) return broken("a message is shorter than its header");
  const auto header = copy_at<pstw_header>(bytes, 0);
  if (header.magic != PSTW_MAGIC) return broken("a message has no magic number");
  if (bytes.size() > PSTW_MESSAGE_BYTES_MAX) return broken("a message is too long");
  if (header.bytes != bytes.size()) return broken("a message is not as long as it says");
  if (header.descriptors != descriptors || descriptors > PSTW_DESCRIPTORS_MAX) {
    return broken("descriptors are missing or too many");
  }
  return Datagram{bytes, header};
}

namespace {

using Answer = Result<ClientMessage>;

Answer read_hello(const Datagram& datagram) {
  // Only this much is the same in every protocol.
  if (datagram.bytes.size() < sizeof(pstw_header) + sizeof(std::uint32_t))
    return broken("a hello is too short");
  Hello hello;
  hello.protocol = copy_at<std::uint32_t>(datagram.bytes, sizeof(pstw_header));
  if (hello.protocol != PSTW_PROTOCOL) return ClientMessage(hello);
  const auto wire = TRY(datagram.whole<pstw_hello>(PSTW_HELLO_EVENTS));
  if (wire.reserved != 0) return broken("a reserved field is used");
  hello.version = TRY(text_of(wire.version, wire.version_bytes));
  hello.name = TRY(text_of(wire.name, wire.name_bytes));
  hello.events = (datagram.header.flags & PSTW_HELLO_EVENTS) != 0;
  return ClientMessage(std::move(hello));
}

Answer read_open_checkpoint(const Datagram& datagram) {
  const std::uint32_t came = datagram.header.descriptors;
  const auto wire = TRY(datagram.front<pstw_open_checkpoint>(PSTW_OPEN_MORE, came));
  if (wire.files == 0 || wire.files > PSTW_OPEN_FILES_MAX) return broken("number of files");
  if (datagram.bytes.size() != sizeof wire + wire.files * sizeof(pstw_open_file)) {
    return broken("a message has the wrong size");
  }
  OpenCheckpoint message;
  message.name = TRY(text_of(wire.name, wire.name_bytes));
  message.more = (datagram.header.flags & PSTW_OPEN_MORE) != 0;
  message.files.reserve(wire.files);
  for (std::uint32_t i = 0; i < wire.files; ++i) {
    const auto entry = copy_at<pstw_open_file>(datagram.bytes, sizeof wire + i * sizeof(pstw_open_file));
    if ((entry.flags & ~std::uint32_t{PSTW_FILE_DIRECT}) != 0) return broken("a file has unknown flags");
    message.files.push_back({TRY(text_of(entry.name, entry.name_bytes)), entry.flags != 0});
  }
  ClientMessage answer(std::move(message));
  if (descriptors_of(answer) != came) return broken("a message has the wrong number of descriptors");
  return answer;
}

Answer read_close_checkpoint(const Datagram& datagram) {
  return ClientMessage(CloseCheckpoint{TRY(datagram.whole<pstw_close_checkpoint>()).checkpoint});
}

// What a table of each kind must and must not say.
Result<> check_kind(const OpenTable& message) {
  const std::size_t checkpoints = message.checkpoints.size();
  const bool has_manifest = message.manifest_bytes != 0;
  switch (message.kind) {
    case TableKind::file:
      if (checkpoints != 1 || has_manifest || message.bytes != 0) return broken("fields of a file table");
      return {};
    case TableKind::assembled:
      if (checkpoints == 0 || !has_manifest || message.bytes != 0 || message.file != 0 ||
          message.layout != Layout::automatic) {
        return broken("fields of an assembled table");
      }
      return {};
    case TableKind::anonymous:
      if (checkpoints != 0 || has_manifest || message.bytes == 0 || message.file != 0 || message.overlay ||
          message.layout != Layout::automatic) {
        return broken("fields of an anonymous table");
      }
      return {};
    case TableKind::overlay: break;
  }
  return broken("kind of a table");
}

Answer read_open_table(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_open_table>(PSTW_TABLE_OVERLAY, datagram.header.descriptors));
  OpenTable message;
  message.device = wire.device;
  message.kind = TRY(enum_of(wire.kind, TableKind::anonymous, "kind of a table"));
  message.layout = TRY(enum_of(wire.layout, Layout::scattered, "layout of a table"));
  message.mode = TRY(enum_of(wire.mode, RevokeMode::cooperative, "mode of a table"));
  message.overlay = (datagram.header.flags & PSTW_TABLE_OVERLAY) != 0;
  message.file = wire.file;
  message.bytes = wire.bytes;
  message.manifest_bytes = wire.manifest_bytes;
  if (wire.checkpoints > PSTW_TABLE_CHECKPOINTS_MAX) return broken("checkpoints of one table");
  const auto end = wire.checkpoint + wire.checkpoints;
  if (std::any_of(end, std::end(wire.checkpoint), [](std::uint64_t handle) { return handle != 0; })) {
    return broken("a reserved field is used");
  }
  message.checkpoints.assign(wire.checkpoint, end);
  TRY(check_kind(message));
  ClientMessage answer(std::move(message));
  if (descriptors_of(answer) != datagram.header.descriptors) {
    return broken("a message has the wrong number of descriptors");
  }
  return answer;
}

Answer read_close_table(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_close_table>());
  if (wire.reserved != 0) return broken("a reserved field is used");
  return ClientMessage(CloseTable{wire.table});
}

Answer read_admit(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_admit>());
  if (wire.reserved != 0) return broken("a reserved field is used");
  if (wire.minimum_work_bytes > wire.work_bytes) return broken("minimum work is above work");
  return ClientMessage(
      Admit{wire.device, wire.weights_bytes, wire.work_bytes, wire.minimum_work_bytes, wire.timeout_ns});
}

Answer read_release_grant(const Datagram& datagram) {
  return ClientMessage(ReleaseGrant{TRY(datagram.whole<pstw_release_grant>()).grant});
}

Answer read_create_buffer(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_create_buffer>());
  if (wire.bytes == 0) return broken("a buffer of no bytes");
  return ClientMessage(CreateBuffer{wire.bytes});
}

Answer read_truncate_buffer(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_truncate_buffer>());
  return ClientMessage(TruncateBuffer{wire.buffer, wire.bytes});
}

Answer read_free_buffer(const Datagram& datagram) {
  return ClientMessage(FreeBuffer{TRY(datagram.whole<pstw_free_buffer>()).buffer});
}

Answer read_free(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_free>());
  if (wire.reserved != 0) return broken("a reserved field is used");
  return ClientMessage(Free{wire.device, wire.bytes, wire.timeout_ns});
}

Answer read_add_file(const Datagram& datagram) {
  const std::uint32_t came = datagram.header.descriptors;
  const auto wire = TRY(datagram.whole<pstw_add_file>(PSTW_FILE_DIRECT, came));
  if (wire.reserved != 0) return broken("a reserved field is used");
  ClientMessage answer(AddFile{TRY(text_of(wire.name, wire.name_bytes)), datagram.header.flags != 0});
  if (descriptors_of(answer) != came) return broken("a message has the wrong number of descriptors");
  return answer;
}

Answer read_drop_file(const Datagram& datagram) {
  return ClientMessage(DropFile{TRY(datagram.whole<pstw_drop_file>()).file});
}

Answer read_read_file(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_read_file>());
  if (wire.bytes == 0) return broken("a read of no bytes");
  return ClientMessage(
      ReadFile{wire.file, wire.file_offset, wire.buffer, wire.buffer_offset, wire.bytes, wire.timeout_ns});
}

Result<Holding> holding_of(const pstw_holding& wire) {
  Holding holding;
  holding.kind = TRY(enum_of(wire.kind, HoldingKind::other, "kind of a holding"));
  holding.place = TRY(enum_of(wire.place, HoldingPlace::disk, "place of a holding"));
  if (wire.reserved != 0) return broken("a reserved field is used");
  const bool on_device = holding.place == HoldingPlace::device;
  if (on_device == (wire.device == PSTW_NO_DEVICE)) return broken("device of a holding");
  if (on_device) holding.device = wire.device;
  holding.bytes = wire.bytes;
  return holding;
}

Answer read_report(const Datagram& datagram) {
  const auto wire = TRY(datagram.front<pstw_report>(0, 0));
  if (wire.reserved != 0) return broken("a reserved field is used");
  if (wire.holdings > PSTW_HOLDINGS_MAX) return broken("number of holdings");
  if (datagram.bytes.size() != sizeof wire + wire.holdings * sizeof(pstw_holding))
    return broken("a message has the wrong size");
  Report message;
  message.holdings.reserve(wire.holdings);
  for (std::uint32_t i = 0; i < wire.holdings; ++i) {
    const Holding holding =
        TRY(holding_of(copy_at<pstw_holding>(datagram.bytes, sizeof wire + i * sizeof(pstw_holding))));
    if (i > 0 && holding.key() <= message.holdings.back().key()) return broken("order of holdings");
    message.holdings.push_back(holding);
  }
  return ClientMessage(std::move(message));
}

Answer read_book_copy(const Datagram& datagram) {
  const auto wire = TRY(datagram.whole<pstw_book_copy>(PSTW_COPY_EXISTS));
  if (wire.reserved != 0) return broken("a reserved field is used");
  if (wire.copy == 0) return broken("a copy without a number");
  BookCopy message;
  message.gpu = TRY(text_of(wire.gpu, wire.gpu_bytes));
  message.copy = wire.copy;
  message.bytes = wire.bytes;
  message.exists = (datagram.header.flags & PSTW_COPY_EXISTS) != 0;
  return ClientMessage(std::move(message));
}

Answer read_query(const Datagram& datagram) {
  const auto wire = TRY(datagram.front<pstw_query>(0, 0));
  const auto tail = datagram.bytes.subspan(sizeof wire);
  if (wire.json_bytes != tail.size()) return broken("a message has the wrong size");
  Query message;
  message.kind = TRY(enum_of(wire.kind, QueryKind::scrub, "kind of a query"));
  message.json.assign(reinterpret_cast<const char*>(tail.data()), tail.size());
  if (!is_utf8(message.json) || message.json.find('\0') != std::string::npos)
    return broken("JSON of a query");
  return ClientMessage(std::move(message));
}

Answer read_cancel(const Datagram& datagram) {
  return ClientMessage(CancelRequest{TRY(datagram.whole<pstw_cancel>()).cancelled});
}

Answer read(const Datagram& datagram) {
  switch (datagram.header.type) {
    case PSTW_HELLO: return read_hello(datagram);
    case PSTW_OPEN_CHECKPOINT: return read_open_checkpoint(datagram);
    case PSTW_CLOSE_CHECKPOINT: return read_close_checkpoint(datagram);
    case PSTW_OPEN_TABLE: return read_open_table(datagram);
    case PSTW_CLOSE_TABLE: return read_close_table(datagram);
    case PSTW_ADMIT: return read_admit(datagram);
    case PSTW_RELEASE_GRANT: return read_release_grant(datagram);
    case PSTW_CREATE_BUFFER: return read_create_buffer(datagram);
    case PSTW_TRUNCATE_BUFFER: return read_truncate_buffer(datagram);
    case PSTW_FREE_BUFFER: return read_free_buffer(datagram);
    case PSTW_FREE: return read_free(datagram);
    case PSTW_QUERY: return read_query(datagram);
    case PSTW_CANCEL: return read_cancel(datagram);
    case PSTW_REPORT: return read_report(datagram);
    case PSTW_BOOK_COPY: return read_book_copy(datagram);
    case PSTW_ADD_FILE: return read_add_file(datagram);
    case PSTW_DROP_FILE: return read_drop_file(datagram);
    case PSTW_READ_FILE: return read_read_file(datagram);
    default: return broken("no message of a client has this type");
  }
}

}  // namespace

Result<Decoded<ClientMessage>> decode_client_message(std::span<const std::byte> bytes,
                                                     std::size_t descriptors) {
  const Datagram datagram = TRY(Datagram::open(bytes, descriptors));
  ClientMessage message = TRY(read(datagram));
  if (datagram.header.request == 0) return broken("a request without a number");
  return Decoded<ClientMessage>{datagram.header.request, std::move(message)};
}

std::uint64_t request_of(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(pstw_header)) return 0;
  const auto header = copy_at<pstw_header>(bytes, 0);
  return header.magic == PSTW_MAGIC ? header.request : 0;
}

}  // namespace penstock::wire
