// SPDX-License-Identifier: Apache-2.0
// FrameDescriptors: how a writer in another process gets at a frame's memory. Implemented by owners of frames.
#pragma once

#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

class FrameDescriptors {
 public:
  virtual ~FrameDescriptors() = default;
  FrameDescriptors(const FrameDescriptors&) = delete;
  FrameDescriptors& operator=(const FrameDescriptors&) = delete;

  // The owner's own descriptor of the frame, with all rights that the frame still gives; lives as long as the frame.
  virtual Result<int> writers_descriptor(FrameId frame) = 0;

 protected:
  FrameDescriptors() = default;
};

}  // namespace penstock
