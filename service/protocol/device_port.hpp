// SPDX-License-Identifier: Apache-2.0
// DevicePort: the service's end of one client's device socket, over SEQPACKET. Never blocks, never allocates.
// Owned and used by the device's dataplane thread alone.
#pragma once

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/pager/peer_port.hpp"
#include "service/protocol/device_codec.hpp"

namespace penstock {

class DevicePort final : public PeerPort {
 public:
  // REQUIRES: a connected SEQPACKET socket.
  explicit DevicePort(UniqueFd socket);

  int fd() const override { return socket_.get(); }
  Result<std::optional<PeerDatagram>> receive() override;
  Result<> send_grants(std::uint32_t batch, std::span<const GrantedPage> pages,
                       std::optional<PeerCompletion> completes) override;
  Result<> send_revoke(std::uint32_t table, std::uint32_t page, std::uint64_t generation) override;
  Result<> send_completion(const PeerCompletion& completion) override;
  Result<> send_closing() override;

 private:
  Result<> send(const pstw_device_message& message);

  UniqueFd socket_;
  wire::DeviceBuffer buffer_;
};

}  // namespace penstock
