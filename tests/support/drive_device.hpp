// SPDX-License-Identifier: Apache-2.0
// Drives the device seam in tests: waits for answers on the event descriptors, with a bound.
#pragma once

#include <optional>
#include <vector>

#include "dataplane/device/device_memory.hpp"

namespace penstock {

// False when nothing came within the bound (20 s, far above what any answer needs).
bool wait_readable(int fd);
// Collects `count` answers; fewer when the bound passes without one.
std::vector<CreateDone> reap_all(FrameOwner& owner, std::size_t count);
// Asks for one frame with tag 0 and waits for it. REQUIRES: no other answer is due.
CreateDone create_and_wait(FrameOwner& owner);
// create_and_wait, for where it must work; no frame when it did not.
std::optional<FrameId> make_frame(FrameOwner& owner);
// False when the fence was not reached within the bound, or the writer is lost.
bool wait_reached(FrameWriter& writer, FenceId fence);

}  // namespace penstock
