// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_device.hpp"

#include <algorithm>
#include <utility>

#include <sys/epoll.h>

#include "dataplane/base/check.hpp"
#include "tests/support/drive_device.hpp"

namespace penstock {
namespace {

using Guard = std::lock_guard<std::mutex>;

EventFd new_event() {
  Result<EventFd> event = EventFd::create();
  CHECK(event.has_value());
  return std::move(*event);
}

}  // namespace

FaultyDevice::Wake::Wake(int device_fd) : own_(new_event()), both_(::epoll_create1(EPOLL_CLOEXEC)) {
  CHECK(static_cast<bool>(both_));
  for (const int fd : {own_.fd(), device_fd}) {
    epoll_event readable{.events = EPOLLIN, .data = {.fd = fd}};
    if (fd >= 0) CHECK(::epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &readable) == 0);
  }
}

FaultyDevice::FrameState& FaultyDevice::State::alive(FrameId frame) {
  const auto found = frames.find(raw(frame));
  CHECK(found != frames.end());  // F1
  return found->second;
}

Error FaultyDevice::State::lost() const {
  CHECK(wait_reached(device_writer, newest));
  return Error{Errc::device, 0, "writer lost"};
}

FaultyDevice::FaultyDevice(FrameOwner& owner, FrameWriter& writer, const Options& options)
    : state_(owner.limits().frame_bytes, writer, options.addressable),
      owner_(state_, owner),
      writer_(state_, writer) {}

void FaultyDevice::refuse_creation_after(std::uint64_t creations, CreateResult result) {
  CHECK(result != CreateResult::created);
  const Guard guard(state_.mutex);
  state_.creations_left = creations;
  state_.refusal = result;
}

void FaultyDevice::heal_creation() {
  const Guard guard(state_.mutex);
  state_.creations_left.reset();
}

void FaultyDevice::hold_creations() {
  const Guard guard(state_.mutex);
  state_.creations_held = true;
}

void FaultyDevice::release_creations() {
  {
    const Guard guard(state_.mutex);
    state_.creations_held = false;
  }
  owner_.wake();
}

void FaultyDevice::hold_fences(std::optional<std::uint64_t> polls) {
  CHECK(polls != 0);
  {
    const Guard guard(state_.mutex);
    state_.fences_held = true;
    state_.polls_to_release = polls.value_or(0);
  }
  if (polls) writer_.wake();
}

void FaultyDevice::release_fences() {
  {
    const Guard guard(state_.mutex);
    state_.fences_held = false;
  }
  writer_.wake();
}

void FaultyDevice::lose_contents() {
  owner_.lose_contents();
  owner_.wake();
}

void FaultyDevice::fail_next_copy_of_a_frame(Error error) {
  const Guard guard(state_.mutex);
  state_.copy_error = error;
}

void FaultyDevice::lose_writer() {
  {
    const Guard guard(state_.mutex);
    state_.writer_lost = true;
  }
  writer_.wake();
}

void FaultyDevice::replace_writer() {
  {
    const Guard guard(state_.mutex);
    static_cast<void>(state_.lost());
    state_.writer_lost = false;
    state_.told = state_.newest;
    for (auto& [id, frame] : state_.frames) frame.of_lost_writer = frame.attached;
  }
  writer_.wake();
}

std::uint64_t FaultyDevice::frames_alive() const {
  const Guard guard(state_.mutex);
  return state_.frames.size();
}

std::uint64_t FaultyDevice::creations_held() const {
  const Guard guard(state_.mutex);
  return state_.held_tags.size();
}

std::uint64_t FaultyDevice::copies() const {
  const Guard guard(state_.mutex);
  return state_.copies;
}

void FaultyDevice::Owner::create(std::uint64_t tag) {
  const Guard guard(state_.mutex);
  if (state_.creations_held) {
    state_.held_tags.push_back(tag);
    return;
  }
  forward(tag);
}

void FaultyDevice::Owner::forward(std::uint64_t tag) {
  if (state_.creations_left == 0) {
    answers_.push_back(CreateDone{.tag = tag, .result = state_.refusal});
    wake_.signal();
    return;
  }
  if (state_.creations_left) --*state_.creations_left;
  device_.create(tag);
  if (device_.event_fd() < 0) wake_.signal();
}

std::size_t FaultyDevice::Owner::reap(std::span<CreateDone> done) {
  const Guard guard(state_.mutex);
  wake_.consume();
  if (!state_.creations_held) {
    for (const std::uint64_t tag : std::exchange(state_.held_tags, {})) forward(tag);
  }
  const std::size_t injected = std::min(done.size(), answers_.size());
  std::copy_n(answers_.begin(), injected, done.begin());
  answers_.erase(answers_.begin(), answers_.begin() + static_cast<std::ptrdiff_t>(injected));
  const std::size_t total = injected + device_.reap(done.subspan(injected));
  // Whatever did not fit keeps the descriptor readable.
  if (!answers_.empty() || (device_.event_fd() < 0 && total == done.size())) wake_.signal();
  for (const CreateDone& answer : done.first(total)) {
    if (answer.result != CreateResult::created) continue;
    CHECK(state_.frames.emplace(raw(answer.frame), FrameState{}).second);
  }
  return total;
}

void FaultyDevice::Owner::destroy(FrameId frame) {
  const Guard guard(state_.mutex);
  CHECK(state_.idle(state_.alive(frame)));  // F2
  if (state_.writer_lost) static_cast<void>(state_.lost());
  state_.frames.erase(raw(frame));
  device_.destroy(frame);
}

Result<ExportedFrame> FaultyDevice::Owner::share(FrameId frame, FrameAccess access) {
  const Guard guard(state_.mutex);
  FrameState& entry = state_.alive(frame);
  CHECK(state_.filled(entry));                        // F2
  CHECK(entry.published.value_or(access) == access);  // F4
  entry.published = access;
  return device_.share(frame, access);
}

Result<> FaultyDevice::Writer::attach(FrameId frame) {
  const Guard guard(state_.mutex);
  FrameState& entry = state_.alive(frame);
  CHECK(!entry.attached);  // F4
  if (state_.writer_lost) return state_.lost();
  TRY(device_.attach(frame));
  entry.attached = true;
  return {};
}

void FaultyDevice::Writer::detach(FrameId frame) {
  const Guard guard(state_.mutex);
  FrameState& entry = state_.alive(frame);
  CHECK(entry.attached);
  CHECK(state_.idle(entry));  // F2
  if (state_.writer_lost) static_cast<void>(state_.lost());
  entry.attached = false;
  device_.detach(frame);
}

Result<FenceId> FaultyDevice::Writer::copy(FrameId frame, std::uint64_t offset,
                                           std::span<const std::byte> source,
                                           const CopyConversion& conversion) {
  const Guard guard(state_.mutex);
  FrameState& entry = state_.alive(frame);
  CHECK(entry.attached && entry.published != FrameAccess::shared_read_only);  // F3
  const std::uint64_t bytes = source.size() * dtype_bits(conversion.wanted) / dtype_bits(conversion.stored);
  CHECK(offset <= state_.frame_bytes && bytes <= state_.frame_bytes - offset);  // F3
  if (state_.writer_lost) return state_.lost();
  if (entry.of_lost_writer) return Error{Errc::device, 0, "frame of a lost writer"};
  state_.newest = entry.last_fence = entry.last_write = TRY(device_.copy(frame, offset, source, conversion));
  ++state_.copies;
  for (auto& [id, one] : state_.sources) {
    const std::byte* const end = one.memory.data() + one.memory.size();
    if (source.data() >= one.memory.data() && source.data() < end) one.last_copy = state_.newest;
  }
  return state_.newest;
}

Result<> FaultyDevice::Writer::add_source(SourceId source, std::span<std::byte> memory, int fd) {
  const Guard guard(state_.mutex);
  const bool added = state_.sources.emplace(source, State::Source{.memory = memory}).second;
  CHECK(added);  // F5
  Result<> done = device_.add_source(source, memory, fd);
  if (!done) state_.sources.erase(source);
  return done;
}

FenceId FaultyDevice::Writer::drop_source(SourceId source) {
  const Guard guard(state_.mutex);
  const auto found = state_.sources.find(source);
  CHECK(found != state_.sources.end());                                 // F5
  CHECK(state_.writer_lost || found->second.last_copy <= state_.told);  // F5
  state_.sources.erase(found);
  return device_.drop_source(source);
}

Result<FenceId> FaultyDevice::Writer::copy_frame(FrameId to, FrameId from) {
  const Guard guard(state_.mutex);
  FrameState& target = state_.alive(to);
  FrameState& origin = state_.alive(from);
  CHECK(target.attached && origin.attached && target.published != FrameAccess::shared_read_only);  // F3
  if (state_.writer_lost) return state_.lost();
  if (target.of_lost_writer) return Error{Errc::device, 0, "frame of a lost writer"};
  state_.newest = target.last_fence = target.last_write = origin.last_fence =
      TRY(device_.copy_frame(to, from));
  ++state_.copies;
  if (state_.copy_error)
    state_.failed_copies.emplace(state_.newest, *std::exchange(state_.copy_error, std::nullopt));
  return state_.newest;
}

std::optional<Error> FaultyDevice::Writer::take_copy_failure(FenceId fence) {
  const Guard guard(state_.mutex);
  if (const auto failed = state_.failed_copies.find(fence); failed != state_.failed_copies.end())
    return state_.failed_copies.extract(failed).mapped();
  return device_.take_copy_failure(fence);
}

DeviceLimits FaultyDevice::Owner::limits() const {
  DeviceLimits limits = device_.limits();
  limits.frames_are_addressable = limits.frames_are_addressable && state_.addressable;
  return limits;
}

Result<FenceId> FaultyDevice::Writer::sum(FrameId frame) {
  const Guard guard(state_.mutex);
  if (state_.writer_lost) return state_.lost();
  static_cast<void>(state_.alive(frame));
  return device_.sum(frame);
}

std::optional<Result<std::uint64_t>> FaultyDevice::Writer::take_sum(FenceId fence) {
  const Guard guard(state_.mutex);
  if (state_.writer_lost) return state_.lost();
  return device_.take_sum(fence);
}

std::span<std::byte> FaultyDevice::Writer::address(FrameId frame) {
  const Guard guard(state_.mutex);
  static_cast<void>(state_.alive(frame));
  return state_.addressable ? device_.address(frame) : std::span<std::byte>();
}

Result<FenceId> FaultyDevice::Writer::reached() {
  const Guard guard(state_.mutex);
  wake_.consume();
  if (state_.writer_lost) return state_.lost();
  const FenceId newest = TRY(device_.reached());
  if (state_.fences_held && state_.polls_to_release > 0) {
    if (--state_.polls_to_release == 0) state_.fences_held = false;
    wake_.signal();  // Nothing else would bring the caller back.
  }
  if (!state_.fences_held) state_.told = newest;
  return state_.told;
}

}  // namespace penstock
