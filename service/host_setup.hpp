// SPDX-License-Identifier: Apache-2.0
// Host memory as a device of the service: what the configuration leaves to "auto", chosen from the machine.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/base/failure.hpp"
#include "dataplane/device/headroom_source.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "service/config/config.hpp"
#include "service/control/service.hpp"

namespace penstock {

struct HostSetup {
  std::unique_ptr<DataplaneThread> thread;
  DeviceLimits limits;
  std::uint64_t frames_max = 0;  // Descriptors that frames may use: each holds one.
};

Outcome<HostSetup> start_host_device(const Config& config, HeadroomSource& headroom,
                                     std::uint64_t descriptors);
// `host.locked_bytes`; "auto": a quarter of what the tightest cgroup allows, within what this process may lock.
std::uint64_t locked_budget(const Config& config, HeadroomSource& headroom);

}  // namespace penstock
