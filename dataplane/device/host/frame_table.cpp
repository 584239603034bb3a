// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/frame_table.hpp"

#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {

FrameTable::FrameTable(std::uint64_t capacity_frames) : entries_(capacity_frames) {
  CHECK(capacity_frames <= UINT32_MAX);
  for (std::uint32_t id = 0; id < capacity_frames; ++id) free_.push_back(FrameId{id});
}

FrameId FrameTable::add(HostFrame memory) {
  CHECK(!free_.empty());
  const FrameId frame = free_.front();
  free_.pop_front();
  entries_[raw(frame)] = LiveFrame{.memory = std::move(memory)};
  return frame;
}

HostFrame FrameTable::remove(FrameId frame) {
  LiveFrame& entry = at(frame);
  CHECK(idle(entry));
  HostFrame memory = std::move(entry.memory);
  entry = LiveFrame{};
  free_.push_back(frame);
  return memory;
}

LiveFrame& FrameTable::at(FrameId frame) {
  CHECK(raw(frame) < entries_.size());
  LiveFrame& entry = entries_[raw(frame)];
  CHECK(static_cast<bool>(entry.memory));
  return entry;
}

}  // namespace penstock
