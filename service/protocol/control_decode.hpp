// SPDX-License-Identifier: Apache-2.0
// What every decoder checks first. Internal to this folder.
#pragma once

#include "service/protocol/control_codec.hpp"
#include "service/protocol/wire_fields.hpp"

namespace penstock::wire {

// One received datagram whose header is sane: magic, size, count of descriptors.
struct Datagram {
  std::span<const std::byte> bytes;
  pstw_header header;

  static Result<Datagram> open(std::span<const std::byte> bytes, std::size_t descriptors);

  // The message, when it has exactly that size, no more than these flags, and that many descriptors.
  template <class Wire>
  Result<Wire> whole(std::uint32_t flags = 0, std::uint32_t descriptors = 0) const {
    if (bytes.size() != sizeof(Wire)) return broken("a message has the wrong size");
    return front<Wire>(flags, descriptors);
  }

  // The same, with more behind it.
  template <class Wire>
  Result<Wire> front(std::uint32_t flags, std::uint32_t descriptors) const {
    if (bytes.size() < sizeof(Wire)) return broken("a message is too short");
    if ((header.flags & ~flags) != 0) return broken("a message has unknown flags");
    if (header.descriptors != descriptors) return broken("a message has the wrong number of descriptors");
    return copy_at<Wire>(bytes, 0);
  }
};

}  // namespace penstock::wire
