// SPDX-License-Identifier: Apache-2.0
// Between the device socket's messages as values and their bytes; PROTOCOL.md, section 6. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "dataplane/base/result.hpp"
#include "dataplane/pager/peer_port.hpp"
#include "service/protocol/device_wire.h"

namespace penstock::wire {

// ---- from the client ----
// `acknowledges`: a batch, 0 for none. REQUIRES: none with PeerGranted, which names its own.
pstw_device_message to_wire(const PeerMessage& message, std::uint32_t acknowledges = 0);
// Errc::protocol with the broken rule as Error::operation.
Result<PeerDatagram> decode_peer_message(std::span<const std::byte> datagram);

// ---- from the service ----
struct GrantEntry {
  std::uint32_t table = 0;
  std::uint32_t page = 0;
  std::uint64_t generation = 0;
  bool writable = false;
};
// A view of the datagram that it was decoded from. The descriptor of entry i is the i-th that came.
class GrantBatch {
 public:
  GrantBatch(std::uint32_t batch, std::optional<PeerCompletion> completes, std::span<const std::byte> entries)
      : batch_(batch), completes_(completes), entries_(entries) {}
  std::uint32_t batch() const { return batch_; }
  const std::optional<PeerCompletion>& completes() const { return completes_; }
  std::size_t size() const { return entries_.size() / sizeof(pstw_grant_entry); }
  GrantEntry operator[](std::size_t i) const;

 private:
  std::uint32_t batch_;
  std::optional<PeerCompletion> completes_;
  std::span<const std::byte> entries_;
};
struct RevokePage {
  std::uint32_t table = 0;
  std::uint32_t page = 0;
  std::uint64_t generation = 0;
};
struct DeviceClosing {};
using DeviceMessage = std::variant<GrantBatch, RevokePage, PeerCompletion, DeviceClosing>;

using DeviceBuffer = std::array<std::byte, PSTW_DEVICE_MESSAGE_BYTES_MAX>;  // Holds any message.

// REQUIRES: 1 to PSTW_GRANTS_MAX pages. The result lies in `buffer`.
std::span<const std::byte> encode_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                                         const std::optional<PeerCompletion>& completes,
                                         DeviceBuffer& buffer);
pstw_device_message to_wire(const RevokePage& message);
pstw_device_message to_wire(const PeerCompletion& message);
pstw_device_message to_wire(const DeviceClosing& message);
Result<DeviceMessage> decode_device_message(std::span<const std::byte> datagram, std::size_t descriptors);

}  // namespace penstock::wire
