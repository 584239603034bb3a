// SPDX-License-Identifier: Apache-2.0
// HostDevice: host memory as a device. No mock: the device of nodes without a GPU, and the reference that the
// others must equal in one contract suite.
#pragma once

#include <memory>

#include "dataplane/device/host/host_frame_owner.hpp"
#include "dataplane/device/host/host_frame_writer.hpp"

namespace penstock {

class HostDevice {
 public:
  // REQUIRES: `headroom` outlives the device.
  static Result<HostDevice> open(const HostFrameOptions& options, HeadroomSource& headroom);

  HostDevice(HostDevice&&) = default;
  HostDevice& operator=(HostDevice&&) = delete;  // Would free the old owner under the old writer.

  HostFrameOwner& owner() { return *owner_; }
  HostFrameWriter& writer() { return *writer_; }

 private:
  HostDevice(std::unique_ptr<HostFrameOwner> owner, std::unique_ptr<HostFrameWriter> writer)
      : owner_(std::move(owner)), writer_(std::move(writer)) {}

  std::unique_ptr<HostFrameOwner> owner_;
  std::unique_ptr<HostFrameWriter> writer_;  // After the owner: it copies into the owner's mappings.
};

}  // namespace penstock
