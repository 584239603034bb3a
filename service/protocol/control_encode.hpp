// SPDX-License-Identifier: Apache-2.0
// How an encoder starts and ends a message. Internal to this folder.
#pragma once

#include "service/protocol/control_codec.hpp"
#include "service/protocol/wire_fields.hpp"

namespace penstock::wire {

using Bytes = std::vector<std::byte>;

inline Error unfit(const char* rule) { return Error{Errc::invalid, 0, rule}; }

// A zeroed message with its header. `flags` are the type's own.
template <class Wire>
Wire start(pstw_type type, std::uint64_t request, std::uint32_t descriptors = 0, std::uint32_t flags = 0) {
  Wire wire{};
  wire.header.magic = PSTW_MAGIC;
  wire.header.type = static_cast<std::uint16_t>(type);
  wire.header.flags = static_cast<std::uint16_t>(flags);
  wire.header.bytes = sizeof(Wire);
  wire.header.descriptors = descriptors;
  wire.header.request = request;
  return wire;
}

template <class Wire>
Bytes finish(Wire wire, std::span<const std::byte> tail = {}) {
  wire.header.bytes = static_cast<std::uint32_t>(sizeof(Wire) + tail.size());
  Bytes out;
  out.reserve(wire.header.bytes);
  append(out, wire);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

}  // namespace penstock::wire
