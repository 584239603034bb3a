// SPDX-License-Identifier: Apache-2.0
// SimulatedDevice: frames with contents, a reader with a few slots, a copier. It obeys the core's commands
// late and in any order; answers are events for the core. Frame numbers are used again at once, and the contents
// of a frame that is destroyed or only partly filled are poison.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/core/pager_events.hpp"
#include "dataplane/core/slot_table.hpp"
#include "tests/support/random.hpp"

namespace penstock::sim {

using test::Random;

// What the file holds for a page. Never zero, never poison.
std::uint64_t file_bytes(PageKey page);

class SimulatedDevice {
 public:
  struct Frame {
    std::optional<PageKey> page;  // None: destroyed.
    std::uint64_t bytes = 0;
    Generation filled_for{};  // 0: created and not filled.
    bool being_filled = false;
  };

  SimulatedDevice();

  void obey(const CreateFrame& create);
  void obey(const Load& load);
  void obey(const CancelLoad& cancel);
  void obey(const CopyFrame& copy);
  void obey(const DestroyFrame& destroy);

  bool idle() const { return creations_.empty() && loads_.empty() && copies_.empty(); }
  // Something that is open ends, well or badly; nothing when the die falls on a part without work.
  std::optional<Event> answer(Random& random);
  // All fills that are open are lost. The answer to one of them, that comes too late.
  std::optional<Event> lose_writer();

  const Frame& frame(FrameId frame) const;
  void write(FrameId frame, std::uint64_t bytes);
  bool is_creating(PageKey page) const;
  const std::vector<CreateFrame>& creations() const { return creations_; }
  // Filled or read by a copy: it may outlive its table.
  bool is_in_flight(FrameId frame) const;
  std::uint32_t live() const { return static_cast<std::uint32_t>(created_ - destroyed_); }
  // Frames that exist or are about to.
  std::uint32_t used() const { return live() + static_cast<std::uint32_t>(creations_.size()); }
  template <class Visit>
  void for_each_live(Visit&& visit) const {
    for (std::uint32_t place = 0; place < frames_.size(); ++place) {
      if (frames_[place].page) visit(FrameId{place}, frames_[place]);
    }
  }
  void verify() const;

 private:
  struct OpenLoad {
    Load load;
    PageKey page;  // The frame's.
    SlotId slot = no_slot;
    bool cancelled = false;
  };

  Event answer_creation(Random& random);
  Event answer_load(Random& random, std::size_t place);
  Event answer_copy(Random& random);
  Frame& live_frame(FrameId frame);
  void start_fill(FrameId frame);
  void give_slots();

  std::vector<Frame> frames_;
  std::vector<FrameId> free_;
  std::vector<CreateFrame> creations_;
  std::vector<OpenLoad> loads_;
  std::vector<CopyFrame> copies_;
  SlotTable slots_;
  std::uint64_t created_ = 0, destroyed_ = 0;
};

}  // namespace penstock::sim
