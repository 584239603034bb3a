// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/device_codec.hpp"

#include <cstring>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_events.hpp"
#include "service/protocol/failure_kinds.hpp"
#include "service/protocol/wire_fields.hpp"

namespace penstock::wire {
namespace {

static_assert(static_cast<int>(TicketResult::done) == PSTW_RESULT_DONE);
static_assert(static_cast<int>(TicketResult::offloaded) == PSTW_RESULT_OFFLOADED);
static_assert(static_cast<int>(TicketResult::failed) == PSTW_RESULT_FAILED);
static_assert(static_cast<int>(TicketResult::cancelled) == PSTW_RESULT_CANCELLED);
static_assert(PSTW_GRANTS_MAX == grant_batch_pages);

using Wire = pstw_device_message;

Wire start(pstw_device_type type) {
  Wire wire{};
  wire.magic = PSTW_DEVICE_MAGIC;
  wire.type = static_cast<std::uint16_t>(type);
  return wire;
}

void put_flag(Wire& wire, int flag, bool set) {
  if (set) wire.flags = static_cast<std::uint16_t>(wire.flags | flag);
}

template <class Range>
Wire range_message(pstw_device_type type, const Range& range) {
  Wire wire = start(type);
  wire.request = range.request;
  wire.table = range.table;
  wire.page = range.first;
  wire.count = range.count;
  return wire;
}

template <class Page>
Wire page_message(pstw_device_type type, const Page& page) {
  Wire wire = start(type);
  wire.table = page.table;
  wire.page = page.page;
  wire.generation = page.generation;
  return wire;
}

Wire write(const PeerFault& message) { return range_message(PSTW_FAULT, message); }
Wire write(const PeerPrefetch& message) { return range_message(PSTW_PREFETCH, message); }
Wire write(const PeerMakePrivate& message) { return range_message(PSTW_MAKE_PRIVATE, message); }
Wire write(const PeerGranted& message) {
  Wire wire = start(PSTW_GRANTED);
  wire.batch = message.batch;
  return wire;
}
Wire write(const PeerAcked& message) { return page_message(PSTW_ACKED, message); }
Wire write(const PeerBusy& message) {
  Wire wire = page_message(PSTW_BUSY, message);
  put_flag(wire, PSTW_BUSY_LATER, message.later);
  return wire;
}
Wire write(const PeerIdle& message) {
  Wire wire = start(PSTW_IDLE);
  wire.table = message.table;
  wire.page = message.page;
  return wire;
}
Wire write(const PeerRelease& message) {
  Wire wire = page_message(PSTW_RELEASE, message);
  wire.request = message.request;
  put_flag(wire, PSTW_RELEASE_DROP_IF_LAST, message.drop_if_last);
  return wire;
}
Wire write(const PeerPrioritize& message) {
  Wire wire = start(PSTW_PRIORITIZE);
  wire.table = message.table;
  return wire;
}
Wire write(const PeerCutoff& message) {
  Wire wire = start(PSTW_CUTOFF);
  wire.table = message.table;
  wire.count = message.pages;
  return wire;
}
Wire write(const PeerCancel& message) {
  Wire wire = start(PSTW_CANCEL_FAULT);
  wire.request = message.request;
  return wire;
}

void put_completion(Wire& wire, const PeerCompletion& completion) {
  wire.request = completion.request;
  wire.result = completion.result;
  wire.reason = static_cast<std::uint8_t>(completion.reason);
  wire.frames = completion.frames;
  wire.released_bytes = completion.released_bytes;
}

PeerCompletion completion_of(const Wire& wire) {
  return PeerCompletion{wire.request, wire.result, to_failure_kind(wire.reason), wire.frames,
                        wire.released_bytes};
}

// A message is sane when writing what was read gives the same bytes: every field that its type doesn't use is zero, and
// no flag is unknown.
bool is_canonical(const Wire& wire, const Wire& written) {
  return std::memcmp(&wire, &written, sizeof wire) == 0;
}

// Ranges that wrap have no pages that exist.
bool is_range(const Wire& wire) {
  return wire.request != 0 && wire.table != 0 && wire.count != 0 && wire.count <= UINT32_MAX - wire.page;
}

bool is_page(const Wire& wire) {
  return wire.table != 0 && wire.generation != 0 && wire.generation <= PSTW_ENTRY_GENERATION_MASK;
}

Result<PeerMessage> read_peer_message(const Wire& wire) {
  const bool flag = (wire.flags & 1) != 0;
  switch (wire.type) {
    case PSTW_FAULT:
      if (!is_range(wire)) break;
      return PeerMessage(PeerFault{wire.request, wire.table, wire.page, wire.count});
    case PSTW_PREFETCH:
      if (!is_range(wire)) break;
      return PeerMessage(PeerPrefetch{wire.request, wire.table, wire.page, wire.count});
    case PSTW_MAKE_PRIVATE:
      if (!is_range(wire)) break;
      return PeerMessage(PeerMakePrivate{wire.request, wire.table, wire.page, wire.count});
    case PSTW_GRANTED:
      if (wire.batch == 0) break;
      return PeerMessage(PeerGranted{wire.batch});
    case PSTW_ACKED:
      if (!is_page(wire)) break;
      return PeerMessage(PeerAcked{wire.table, wire.page, wire.generation});
    case PSTW_BUSY:
      if (!is_page(wire)) break;
      return PeerMessage(PeerBusy{wire.table, wire.page, wire.generation, flag});
    case PSTW_IDLE:
      if (wire.table == 0) break;
      return PeerMessage(PeerIdle{wire.table, wire.page});
    case PSTW_RELEASE:
      if (!is_page(wire)) break;
      return PeerMessage(PeerRelease{wire.request, wire.table, wire.page, wire.generation, flag});
    case PSTW_PRIORITIZE:
      if (wire.table == 0) break;
      return PeerMessage(PeerPrioritize{wire.table});
    case PSTW_CUTOFF:
      if (wire.table == 0) break;
      return PeerMessage(PeerCutoff{wire.table, wire.count});
    case PSTW_CANCEL_FAULT:
      if (wire.request == 0) break;
      return PeerMessage(PeerCancel{wire.request});
    default: return broken("no message of a client has this type");
  }
  return broken("a field of a device message is out of range");
}

Result<Wire> open(std::span<const std::byte> datagram) {
  if (datagram.size() < sizeof(Wire)) return broken("a device message is too short");
  const auto wire = copy_at<Wire>(datagram, 0);
  if (wire.magic != PSTW_DEVICE_MAGIC) return broken("a device message has no magic number");
  return wire;
}

Result<DeviceMessage> read_grants(const Wire& wire, std::span<const std::byte> tail,
                                  std::size_t descriptors) {
  if (wire.batch == 0 || wire.count == 0 || wire.count > PSTW_GRANTS_MAX)
    return broken("size of a grant batch");
  if (tail.size() != wire.count * sizeof(pstw_grant_entry)) return broken("a grant batch has the wrong size");
  if (descriptors != wire.count) return broken("a grant batch has the wrong number of descriptors");
  Wire written = start(PSTW_GRANTS);
  written.batch = wire.batch;
  written.count = wire.count;
  std::optional<PeerCompletion> completes;
  if ((wire.flags & PSTW_GRANTS_COMPLETE) != 0) {
    completes = completion_of(wire);
    put_flag(written, PSTW_GRANTS_COMPLETE, true);
    put_completion(written, *completes);
    written.reason = wire.reason;
    if (wire.request == 0 || wire.result > PSTW_RESULT_CANCELLED)
      return broken("completion in a grant batch");
  }
  if (!is_canonical(wire, written)) return broken("a device message uses a field that is not its own");
  for (std::uint32_t i = 0; i < wire.count; ++i) {
    const auto entry = copy_at<pstw_grant_entry>(tail, i * sizeof(pstw_grant_entry));
    const std::uint64_t generation = entry.generation & ~PSTW_ENTRY_WRITABLE;
    if (entry.table == 0 || generation == 0 || generation > PSTW_ENTRY_GENERATION_MASK) {
      return broken("entry of a grant batch");
    }
  }
  return DeviceMessage(GrantBatch(wire.batch, completes, tail));
}

Result<DeviceMessage> read_device_message(const Wire& wire) {
  Wire written;
  DeviceMessage message = DeviceClosing{};
  switch (wire.type) {
    case PSTW_REVOKE: {
      const RevokePage revoke{wire.table, wire.page, wire.generation};
      if (!is_page(wire)) return broken("a field of a device message is out of range");
      written = to_wire(revoke);
      message = revoke;
      break;
    }
    case PSTW_COMPLETION: {
      const PeerCompletion completion = completion_of(wire);
      if (wire.request == 0 || wire.result > PSTW_RESULT_CANCELLED) return broken("completion of a request");
      written = to_wire(completion);
      written.reason = wire.reason;  // One that is unknown here is no error.
      message = completion;
      break;
    }
    case PSTW_DEVICE_CLOSING: written = to_wire(DeviceClosing{}); break;
    default: return broken("no message of the service has this type");
  }
  if (!is_canonical(wire, written)) return broken("a device message uses a field that is not its own");
  return message;
}

}  // namespace

pstw_device_message to_wire(const PeerMessage& message, std::uint32_t acknowledges) {
  Wire wire = std::visit([](const auto& one) { return write(one); }, message);
  if (acknowledges == 0) return wire;
  CHECK(wire.batch == 0);
  wire.batch = acknowledges;
  return wire;
}

Result<PeerDatagram> decode_peer_message(std::span<const std::byte> datagram) {
  if (datagram.size() != sizeof(Wire)) return broken("a device message has the wrong size");
  const Wire wire = TRY(open(datagram));
  const PeerMessage message = TRY(read_peer_message(wire));
  const std::uint32_t acknowledges = std::holds_alternative<PeerGranted>(message) ? 0 : wire.batch;
  if (!is_canonical(wire, to_wire(message, acknowledges)))
    return broken("a device message uses a field that is not its own");
  return PeerDatagram{message, acknowledges};
}

GrantEntry GrantBatch::operator[](std::size_t i) const {
  CHECK(i < size());
  const auto entry = copy_at<pstw_grant_entry>(entries_, i * sizeof(pstw_grant_entry));
  return GrantEntry{entry.table, entry.page, entry.generation & PSTW_ENTRY_GENERATION_MASK,
                    (entry.generation & PSTW_ENTRY_WRITABLE) != 0};
}

std::span<const std::byte> encode_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                                         const std::optional<PeerCompletion>& completes,
                                         DeviceBuffer& buffer) {
  CHECK(!pages.empty() && pages.size() <= PSTW_GRANTS_MAX);
  Wire wire = start(PSTW_GRANTS);
  wire.batch = batch;
  wire.count = static_cast<std::uint32_t>(pages.size());
  if (completes) {
    put_flag(wire, PSTW_GRANTS_COMPLETE, true);
    put_completion(wire, *completes);
  }
  std::memcpy(buffer.data(), &wire, sizeof wire);
  std::size_t end = sizeof wire;
  for (const GrantedPage& page : pages) {
    const std::uint64_t writable = page.writable ? PSTW_ENTRY_WRITABLE : 0;
    const pstw_grant_entry entry{page.table, page.page, page.generation | writable};
    std::memcpy(buffer.data() + end, &entry, sizeof entry);
    end += sizeof entry;
  }
  return std::span(buffer).first(end);
}

pstw_device_message to_wire(const RevokePage& message) { return page_message(PSTW_REVOKE, message); }

pstw_device_message to_wire(const PeerCompletion& message) {
  Wire wire = start(PSTW_COMPLETION);
  put_completion(wire, message);
  return wire;
}

pstw_device_message to_wire(const DeviceClosing&) { return start(PSTW_DEVICE_CLOSING); }

Result<DeviceMessage> decode_device_message(std::span<const std::byte> datagram, std::size_t descriptors) {
  const Wire wire = TRY(open(datagram));
  if (wire.type == PSTW_GRANTS) return read_grants(wire, datagram.subspan(sizeof wire), descriptors);
  if (datagram.size() != sizeof wire) return broken("a device message has the wrong size");
  if (descriptors != 0) return broken("only a grant batch has descriptors");
  return read_device_message(wire);
}

}  // namespace penstock::wire
