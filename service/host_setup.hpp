// SPDX-License-Identifier: Apache-2.0
// Host memory as a device of the service: what the configuration leaves to "auto", chosen from the machine.
#pragma once

#include <cstdint>

#include "dataplane/device/headroom_source.hpp"
#include "service/device_setup.hpp"

namespace penstock {

Outcome<DeviceSetup> start_host_device(const Config& config, HeadroomSource& headroom,
                                       std::uint64_t descriptors);
// `host.locked_bytes`; "auto": a quarter of what the tightest cgroup allows, within what this process may lock.
std::uint64_t locked_budget(const Config& config, HeadroomSource& headroom);

}  // namespace penstock
