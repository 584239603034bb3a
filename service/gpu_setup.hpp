// SPDX-License-Identifier: Apache-2.0
// The machine's GPUs as devices of the service. None of a driver's states stops the service: what can't be used is said
// once, with its reason.
#pragma once

#include <cstdint>
#include <vector>

#include "service/device_setup.hpp"

namespace penstock {

// Called on a thread that lives as long as the devices: the death of the thread that starts writers ends them.
std::vector<DeviceSetup> start_gpu_devices(const Config& config, std::uint64_t descriptors);

}  // namespace penstock
