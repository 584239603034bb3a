// SPDX-License-Identifier: Apache-2.0
// The machine's GPUs as devices of the service. None of a driver's states stops the service: what can't be used is said
// once, with its reason.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "service/device_setup.hpp"
#include "service/policy/copy_ledger.hpp"

namespace penstock {

struct GpuDevices {
  std::vector<DeviceSetup> devices;
  // Those whose memory can't be shared: clients get whole tables there, copied from host memory.
  std::vector<CopyLedger::Gpu> unshared;
};

// Called on a thread that lives as long as the devices: the death of the thread that starts writers ends them.
// `tier`, if there is one, is given to those that don't share the machine's memory: there it would be a second copy.
GpuDevices start_gpu_devices(const Config& config, std::uint64_t descriptors,
                             const std::shared_ptr<HostTier>& tier);

}  // namespace penstock
