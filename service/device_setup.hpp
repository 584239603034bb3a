// SPDX-License-Identifier: Apache-2.0
// A device of the service with its thread, whatever it is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/pager/dataplane_thread.hpp"
#include "service/config/config.hpp"
#include "service/control/governor.hpp"
#include "service/control/usage_feed.hpp"

namespace penstock {

struct DeviceSetup {
  std::string id;    // "host", "cuda-1a2b3c4d"
  std::string kind;  // "host", "cuda", "hip"
  std::unique_ptr<DataplaneThread> thread;
  DeviceLimits limits;
  std::uint64_t headroom_bytes = 0;
  std::uint64_t frames_max = 0;      // As many as there are descriptors for.
  std::shared_ptr<HostTier> tier{};  // That it is filled from, too.
  // Of a GPU: its driver's call that is under way, or ""; any thread, also after the device.
  std::function<std::string()> driver_call{};
  std::optional<UsageFeed::Device> usage{};  // Of a GPU, without a watch yet: a vendor's GPUs share one.
  std::optional<HostFrames> host_frames{};   // Where its frames are host memory; without a position yet.
};

// Of `descriptors`, those that frames may use.
std::uint64_t descriptors_for_frames(std::uint64_t descriptors);
// Starts the thread. Reader and ring, budgets and deadlines come from the configuration.
Outcome<DeviceSetup> start_device(const Config& config, DeviceSetup setup, SharedDevice device);

}  // namespace penstock
