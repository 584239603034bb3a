// SPDX-License-Identifier: Apache-2.0
// What a host device is made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/headroom_source.hpp"
#include "dataplane/device/host/host_frame.hpp"

namespace penstock {

inline constexpr std::uint64_t default_host_frame_bytes = 8 * mib;

struct HostFrameOptions {
  std::uint64_t frame_bytes = default_host_frame_bytes;  // A multiple of 4 KiB; of 2 MiB for huge pages.
  std::uint64_t capacity_bytes = 0;                      // Rounded down to whole frames, at least one.
  std::size_t ready_pool_frames = 16;
  // Left over in the tightest cgroup after a frame: for page tables, sockets and the heap, which nobody asks
  // before.
  std::uint64_t reserve_bytes = 16 * mib;
  HostPages pages = HostPages::huge;
  bool ahead = true;    // False, with a pool of 0: none is ever made before it is asked for.
  bool locked = false;  // Kept from being swapped out, where the system allows it.
  // The pool doubles when a creation finds it empty, and halves after each interval without any creation.
  Nanoseconds pool_decay_interval = std::chrono::seconds(1);
};

// `capacity = "auto"`: a quarter of the memory that the tightest cgroup allows, in whole frames, at least
// one.
std::uint64_t default_host_capacity(HeadroomSource& headroom, std::uint64_t frame_bytes);

}  // namespace penstock
