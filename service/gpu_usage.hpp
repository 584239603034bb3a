// SPDX-License-Identifier: Apache-2.0
// What the feed of others' usage needs to know of one of our GPUs, and the watches of the vendors' tools.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/writer/stats.hpp"
#include "service/device_setup.hpp"

namespace penstock {

// Frames as the driver may count them: what is being made or given back may be there or not.
FrameBytes frame_bytes_of(const GpuFrameStats& stats, std::uint64_t frame_bytes);

// The writer's readings of the device's free memory. Told by the dataplane thread, read by any.
class FreeMemoryNotes {
 public:
  void note(std::uint64_t free_bytes, const FrameBytes& frames);
  std::optional<WriterReading> newest() const;

 private:
  mutable std::mutex mutex_;
  WriterReading reading_;
  FrameBytes before_;  // At the reading before this one.
};

UsageFeed::Device usage_input(const GpuDescription& gpu, const std::shared_ptr<GpuDevice>& device,
                              std::uint64_t frame_bytes, const WriterStats& writer,
                              std::shared_ptr<const FreeMemoryNotes> notes);

// One watch for each vendor that has a device. Takes the inputs out of the setups.
std::vector<UsageFeed::Device> watch_usage(std::vector<DeviceSetup>& devices);

}  // namespace penstock
