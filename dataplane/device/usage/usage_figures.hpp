// SPDX-License-Identifier: Apache-2.0
// From a reading of a device and what the service itself knows: what others use, what nobody owns up to, what is left.
// Pure arithmetic; nothing ever becomes negative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/device/usage/device_usage.hpp"
#include "dataplane/device/usage/host_memory.hpp"

namespace penstock {

// Work memory that a client was admitted for and takes from the device by itself.
struct GrantedWork {
  std::uint32_t pid = 0;
  std::uint64_t bytes = 0;
};

struct OwnUsage {
  std::uint64_t frame_bytes = 0;  // Frames in existence, of this device.
  // 0: no such process. The writer's memory is its context: what it imports counts for its maker alone.
  std::uint32_t service_pid = 0, writer_pid = 0;
  std::span<const GrantedWork> granted{};  // One entry a client.
};

struct UsageFigures {
  // Used by others than this service and the clients' grants; the clients' driver contexts are included, the writer's is
  // not. Where processes are not known, that context and what clients take of their grants count as foreign: too much is
  // refused then, never too little.
  std::uint64_t foreign_bytes = 0;
  // Used, and neither any process's nor our frames: contents that only descriptors keep alive, and memory of the dead
  // that is not back yet. Not known where processes are not.
  std::optional<std::uint64_t> ghost_bytes;
  // What could still be allocated, by anybody.
  std::uint64_t free_bytes = 0;
};

// REQUIRES: usage.health is readable. `context_bytes`: what the driver uses beside the processes, known from a reading
// of an idle device; 0 when it is not.
UsageFigures figures_of(const DeviceUsage& usage, const OwnUsage& own, std::uint64_t context_bytes = 0);

// A device without memory of its own is budgeted on what the machine can make available. Its driver may not say so: an
// AMD GPU inside a processor shows its carve-out as if it were all.
DeviceUsage on_host_memory(DeviceUsage usage, const HostMemory& memory);

}  // namespace penstock
