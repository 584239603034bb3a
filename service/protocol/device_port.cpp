// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/device_port.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "service/protocol/socket_io.hpp"

namespace penstock {

DevicePort::DevicePort(UniqueFd socket) : socket_(std::move(socket)) { CHECK(socket_); }

Result<std::optional<PeerDatagram>> DevicePort::receive() {
  const auto length = receive_plain_message(socket_.get(), buffer_);
  if (!length) {
    if (length.error().code == Errc::busy) return std::optional<PeerDatagram>();
    return length.error();
  }
  return std::optional(TRY(wire::decode_peer_message(std::span(buffer_).first(*length))));
}

Result<> DevicePort::send_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                                 std::optional<PeerCompletion> completes) {
  const auto message = wire::encode_grants(batch, pages, completes, buffer_);
  std::array<int, PSTW_GRANTS_MAX> descriptors;
  std::transform(pages.begin(), pages.end(), descriptors.begin(),
                 [](const GrantedPage& page) { return page.fd; });
  return send_message(socket_.get(), message, std::span(descriptors).first(pages.size()));
}

Result<> DevicePort::send_revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) {
  return send(wire::to_wire(wire::RevokePage{table, page, generation}));
}

Result<> DevicePort::send_completion(const PeerCompletion& completion) {
  return send(wire::to_wire(completion));
}

Result<> DevicePort::send_closing() { return send(wire::to_wire(wire::DeviceClosing{})); }

Result<> DevicePort::send(const pstw_device_message& message) {
  return send_message(socket_.get(), std::as_bytes(std::span(&message, 1)));
}

}  // namespace penstock
