// SPDX-License-Identifier: Apache-2.0
// Host memory as a device of the service: what the configuration leaves to "auto", chosen from the machine.
#pragma once

#include <cstdint>

#include "dataplane/device/headroom_source.hpp"
#include "service/device_setup.hpp"

namespace penstock {

Outcome<DeviceSetup> start_host_device(const Config& config, HeadroomSource& headroom,
                                       std::uint64_t descriptors);
// The pinned host tier for GPUs that have memory of their own, within `budget_bytes` and a share of the descriptors; without
// a budget until it shares one with the host buffers. Null when that is less than one of its pages.
std::shared_ptr<HostTier> make_host_tier(std::uint64_t budget_bytes, HeadroomSource& headroom,
                                         std::uint64_t descriptors);
// `host.locked_bytes`, and never more than the tightest cgroup allows; "auto": a quarter of what the tightest cgroup allows, within what this process may lock.
std::uint64_t locked_budget(const Config& config, HeadroomSource& headroom);

}  // namespace penstock
