// SPDX-License-Identifier: Apache-2.0
// What the devices count. Snapshots; totals never fall.
#pragma once

#include <cstdint>

namespace penstock {

struct HostFrameStats {
  // Frames now; their sum never exceeds the capacity.
  std::uint64_t alive = 0;  // Handed out, not destroyed yet.
  std::uint64_t ready = 0;  // Populated ahead.
  std::uint64_t in_the_making = 0;
  std::uint64_t dying = 0;  // Destroyed, memory not given back yet.

  std::uint64_t made_total = 0;
  std::uint64_t made_of_small_pages_total = 0;
  std::uint64_t unlocked_total = 0;  // That were to be locked, and could not be.
  std::uint64_t waited_total = 0;    // Creations that found the pool empty.
  std::uint64_t exhausted_total = 0;
  std::uint64_t no_headroom_total = 0;
  std::uint64_t fd_limit_total = 0;
};

struct GpuFrameStats {
  // Frames now; their sum never exceeds the capacity.
  std::uint64_t alive = 0;
  std::uint64_t in_the_making = 0;
  std::uint64_t condemned = 0;   // Destroyed, still mapped by the writer.
  std::uint64_t dying = 0;       // Destroyed, not released yet.
  std::uint64_t unreturned = 0;  // The driver refused to release them; tried again.
  bool quarantined = false;      // Given up, and tried again from time to time.

  std::uint64_t made_total = 0;
  std::uint64_t recoveries_total = 0;
  std::uint64_t contents_losses_total = 0;  // The GPU was gone, and with it what its frames held.
  std::uint64_t exhausted_total = 0;
  std::uint64_t no_headroom_total = 0;
  std::uint64_t fd_limit_total = 0;
  std::uint64_t refused_total =
      0;  // Creations that the driver refused for another reason, or that a quarantine ended.
  std::int32_t last_native = 0;  // The newest code that was neither success nor out of memory.
  const char* last_call = "";    // The call that answered it, or that hung; static.
};

}  // namespace penstock
