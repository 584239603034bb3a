// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_device.hpp"

namespace penstock {

Result<HostDevice> HostDevice::open(const HostFrameOptions& options, HeadroomSource& headroom) {
  auto owner = TRY(HostFrameOwner::open(options, headroom));
  auto writer = TRY(HostFrameWriter::open(owner->frames()));
  return HostDevice(std::move(owner), std::move(writer));
}

}  // namespace penstock
