// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated_device.hpp"

#include <utility>

#include "tests/sim/rules.hpp"

namespace penstock::sim {
namespace {

constexpr std::uint64_t poison = 0xdeaddeaddeaddead;
constexpr std::uint16_t slots = 6;

template <class T>
T taken_out(std::vector<T>& from, std::size_t place) {
  T taken = from[place];
  from.erase(from.begin() + static_cast<std::ptrdiff_t>(place));
  return taken;
}

}  // namespace

std::uint64_t file_bytes(PageKey page) {
  return Random(std::uint64_t{raw(page.table)} << 32 | page.index).next() | 1u;
}

SimulatedDevice::SimulatedDevice() : slots_(slots) {}

void SimulatedDevice::obey(const CreateFrame& create) {
  must(Rule::conservation, !is_creating(create.page), "one frame is created for a page at a time");
  creations_.push_back(create);
}

// P4: the reader fills with the bytes of the page that the command names, and answers for the frame's page.
void SimulatedDevice::obey(const Load& load) {
  start_fill(load.frame);
  loads_.push_back({.load = load, .page = *live_frame(load.frame).page});
  give_slots();
}

void SimulatedDevice::obey(const CancelLoad& cancel) {
  for (OpenLoad& open : loads_) {
    if (open.page == cancel.page && open.load.generation == cancel.generation) open.cancelled = true;
  }
}

void SimulatedDevice::obey(const CopyFrame& copy) {
  must(Rule::bytes, live_frame(copy.to).page == copy.page, "a copy goes to the page's own frame");
  must(Rule::bytes, live_frame(copy.from).page->index == copy.page.index, "a copy takes the same page");
  start_fill(copy.to);
  copies_.push_back(copy);
}

void SimulatedDevice::obey(const DestroyFrame& destroy) {
  Frame& frame = live_frame(destroy.frame);
  must(Rule::conservation, !is_in_flight(destroy.frame), "nothing fills or reads a frame that is destroyed");
  frame = {.page = std::nullopt, .bytes = poison};
  free_.push_back(destroy.frame);
  ++destroyed_;
}

// P7: each frame is filled once in its life.
void SimulatedDevice::start_fill(FrameId id) {
  Frame& frame = live_frame(id);
  must(Rule::conservation, !frame.being_filled && raw(frame.filled_for) == 0, "a frame is filled once");
  frame.being_filled = true;
  frame.bytes = poison;
}

std::optional<Event> SimulatedDevice::answer(Random& random) {
  give_slots();
  if (!creations_.empty() && random.one_in(2)) return answer_creation(random);
  if (!loads_.empty() && random.one_in(2)) {
    const std::size_t place = random.below(loads_.size());
    if (loads_[place].slot == no_slot) return std::nullopt;
    return answer_load(random, place);
  }
  if (copies_.empty()) return std::nullopt;
  return answer_copy(random);
}

Event SimulatedDevice::answer_creation(Random& random) {
  const CreateFrame create = taken_out(creations_, random.below(creations_.size()));
  if (random.one_in(20)) return NotCreated{.page = create.page};
  FrameId id{static_cast<std::uint32_t>(frames_.size())};
  if (free_.empty()) {
    frames_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  frames_[raw(id)] = {.page = create.page};
  ++created_;
  return Created{.page = create.page, .frame = id};
}

Event SimulatedDevice::answer_load(Random& random, std::size_t place) {
  const OpenLoad open = taken_out(loads_, place);
  slots_.give_back(open.slot);
  Frame& frame = live_frame(open.load.frame);
  frame.being_filled = false;
  frame.filled_for = open.load.generation;
  const bool ok = !random.one_in(open.cancelled ? 2 : 20);
  if (ok) frame.bytes = file_bytes(open.load.page);
  const FailureKind reason = random.one_in(2) ? FailureKind::io_error : FailureKind::device_unhealthy;
  return Loaded{.page = open.page,
                .generation = open.load.generation,
                .ok = ok,
                .reason = open.cancelled ? FailureKind::cancelled : reason};
}

Event SimulatedDevice::answer_copy(Random& random) {
  const CopyFrame copy = taken_out(copies_, random.below(copies_.size()));
  Frame& frame = live_frame(copy.to);
  frame.being_filled = false;
  frame.filled_for = copy.generation;
  const bool ok = !random.one_in(20);
  if (ok) frame.bytes = frames_[raw(copy.from)].bytes;
  return FenceReached{.page = copy.page, .generation = copy.generation, .ok = ok};
}

std::optional<Event> SimulatedDevice::lose_writer() {
  const std::vector<OpenLoad> lost = std::exchange(loads_, {});
  for (const OpenLoad& open : lost) {
    live_frame(open.load.frame).being_filled = false;
    live_frame(open.load.frame).filled_for = open.load.generation;
    if (open.slot != no_slot) slots_.give_back(open.slot);
  }
  for (const CopyFrame& copy : std::exchange(copies_, {})) {
    live_frame(copy.to).being_filled = false;
    live_frame(copy.to).filled_for = copy.generation;
  }
  if (lost.empty()) return std::nullopt;
  return Loaded{.page = lost.front().page, .generation = lost.front().load.generation, .ok = true};
}

void SimulatedDevice::give_slots() {
  for (OpenLoad& open : loads_) {
    if (open.slot != no_slot) continue;
    const std::optional<SlotId> slot = slots_.take();
    if (!slot) return;
    open.slot = *slot;
  }
}

SimulatedDevice::Frame& SimulatedDevice::live_frame(FrameId id) {
  must(Rule::conservation, raw(id) < frames_.size() && frames_[raw(id)].page.has_value(),
       "a command names a frame that exists");
  return frames_[raw(id)];
}

const SimulatedDevice::Frame& SimulatedDevice::frame(FrameId id) const {
  must(Rule::conservation, raw(id) < frames_.size(), "a command names a frame that has existed");
  return frames_[raw(id)];
}

void SimulatedDevice::write(FrameId frame, std::uint64_t bytes) { live_frame(frame).bytes = bytes; }

bool SimulatedDevice::is_creating(PageKey page) const {
  for (const CreateFrame& open : creations_) {
    if (open.page == page) return true;
  }
  return false;
}

bool SimulatedDevice::is_in_flight(FrameId id) const {
  if (frames_[raw(id)].being_filled) return true;
  for (const CopyFrame& open : copies_) {
    if (open.from == id) return true;
  }
  return false;
}

// P7: what was created and not destroyed is there; a slot is taken exactly for each read that has started.
void SimulatedDevice::verify() const {
  std::uint32_t there = 0;
  for_each_live([&there](FrameId, const Frame&) { ++there; });
  must(Rule::conservation, there == live(), "frames created == destroyed + live");
  must(Rule::conservation, there + free_.size() == frames_.size(), "a frame's number is in use or free");
  std::uint16_t reading = 0;
  for (const OpenLoad& open : loads_) reading = static_cast<std::uint16_t>(reading + (open.slot != no_slot));
  must(Rule::conservation, slots_.taken() == reading, "slots taken == reads under way");
}

}  // namespace penstock::sim
