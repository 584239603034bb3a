// SPDX-License-Identifier: Apache-2.0
// FrameTable: the host frames that are alive, by id; shared by the owner and the writer of one device.
// Dataplane thread.
//
// An id is free again as soon as its frame is destroyed; ids are given out in the order in which they became
// free, so that a stale one meets an empty entry for as long as possible.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "dataplane/base/ids.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/host/host_frame.hpp"

namespace penstock {

struct LiveFrame {
  HostFrame memory{};                      // Empty: no frame has this id now.
  FenceId last_fence{};                    // Of the writer's newest use of it.
  FenceId last_write{};                    // Of what fills it; copies that only read it come later.
  std::optional<FrameAccess> published{};  // Set by the first share.
  bool attached = false;
};

class FrameTable {
 public:
  explicit FrameTable(std::uint64_t capacity_frames);

  // REQUIRES: fewer than the capacity are alive.
  FrameId add(HostFrame memory);
  // REQUIRES: the frame is alive, no fence is pending on it.
  HostFrame remove(FrameId frame);
  // REQUIRES: the frame is alive.
  LiveFrame& at(FrameId frame);
  std::uint64_t frame_count() const { return entries_.size() - free_.size(); }

  // The newest fence that the writer has told the caller: what came later counts as pending.
  void set_reached(FenceId fence) { reached_ = fence; }
  bool idle(const LiveFrame& frame) const { return frame.last_fence <= reached_; }
  bool filled(const LiveFrame& frame) const { return frame.last_write <= reached_; }

 private:
  std::vector<LiveFrame> entries_;
  std::deque<FrameId> free_;
  FenceId reached_{};
};

}  // namespace penstock
