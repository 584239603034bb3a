// SPDX-License-Identifier: Apache-2.0
// HostedFiller: what penstock-writer drives, one per process: a filler of frames, and what else the service wants to know.
// Its fences are its own. An Errc::device ends the process.
#pragma once

#include <cstdint>

#include "dataplane/device/gpu/frame_filler.hpp"

namespace penstock {

class HostedFiller : public FrameFiller {
 public:
  // Of the device; 0 when unknown.
  virtual std::uint64_t free_bytes() = 0;
};

}  // namespace penstock
