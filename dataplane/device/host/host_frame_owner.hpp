// SPDX-License-Identifier: Apache-2.0
// HostFrameOwner: FrameOwner over memfds. A frame is handed out once and never used again (D1): destroy
// unmaps and closes it on the maker's thread, and until that is done it counts against the capacity.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/frame_descriptors.hpp"
#include "dataplane/device/host/frame_maker.hpp"
#include "dataplane/device/host/frame_table.hpp"

namespace penstock {

class HostFrameOwner final : public FrameOwner, public FrameDescriptors {
 public:
  // REQUIRES: `headroom` outlives the owner. Errc::invalid for a frame size that is no multiple of the page
  // size.
  static Result<std::unique_ptr<HostFrameOwner>> open(const HostFrameOptions& options,
                                                      HeadroomSource& headroom);

  DeviceLimits limits() const override;
  void create(std::uint64_t tag) override;
  std::size_t reap(std::span<CreateDone> done) override;
  void destroy(FrameId frame) override;
  std::uint64_t ready_frames() const override { return maker_.stats().ready; }
  Result<ExportedFrame> share(FrameId frame, FrameAccess access) override;
  int event_fd() const override { return maker_.event_fd(); }
  Result<int> writers_descriptor(FrameId frame) override { return frames_.at(frame).memory.fd(); }

  FrameTable& frames() { return frames_; }  // For the writer of the same device.
  void set_making_ahead(bool allowed) { maker_.set_making_ahead(allowed); }  // Any thread.
  HostFrameStats stats() const { return maker_.stats(); }                    // Any thread.

 private:
  HostFrameOwner(const HostFrameOptions& options, HeadroomSource& headroom, EventFd wake);

  const std::uint64_t frame_bytes_;
  FrameMaker maker_;
  FrameTable frames_;
  std::vector<FrameAnswer> answers_;  // Scratch of reap.
};

}  // namespace penstock
