// SPDX-License-Identifier: Apache-2.0
// GpuDevice: both halves of a GPU as one device: frames of a GpuFrameOwner, filled by a FrameFiller that may be lost and
// followed by another. Its owner() keeps the promise that a created frame is zero.
//
// Invariants:
//  Z1 A creation is answered `created` only when the filler has zeroed the frame. A frame whose zeroing was under way at
//     a loss, or that nobody has heard of yet, is destroyed, and its creation begins anew.
//  Z2 A frame is given back to the owner only when nothing of the filler maps it, by fence, or because the filler is lost.
//  Z3 A loss is told by writer().reached() once at least, before any later fence.
//  Z4 A frame is filled only by the incarnation of the filler that zeroed it. A later one maps it to read, for
//     copy_frame and sum.
//  Z5 A frame that the driver refuses to map for reading costs what was to read it, and nothing else: it is mapped anew
//     for whoever comes next.
//
// Dataplane thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/gpu/frame_filler.hpp"
#include "dataplane/device/gpu/gpu_frame_owner.hpp"

namespace penstock {

class GpuDeviceState;

class GpuDevice {
 public:
  static Result<std::unique_ptr<GpuDevice>> open(std::unique_ptr<GpuFrameOwner> owner,
                                                 std::unique_ptr<FrameFiller> filler);
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  FrameOwner& owner() { return *owner_; }
  FrameWriter& writer() { return *writer_; }

  FrameFiller& filler();
  // The GPU is not to be used any more: all creations are answered `lost`. For good.
  void quarantine();
  GpuFrameStats stats() const;  // Any thread.
  // The owner's driver call that is under way, or ""; any thread, also after the device.
  std::function<std::string()> call_watch() const;

 private:
  explicit GpuDevice(std::unique_ptr<GpuDeviceState> state);

  std::unique_ptr<GpuDeviceState> state_;
  std::unique_ptr<FrameOwner> owner_;
  std::unique_ptr<FrameWriter> writer_;
};

}  // namespace penstock
