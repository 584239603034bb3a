// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_device_state.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>

#include "dataplane/base/check.hpp"

namespace penstock {

Result<JointWake> JointWake::make(std::initializer_list<int> fds) {
  EventFd own = TRY(EventFd::create());
  UniqueFd all(::epoll_create1(EPOLL_CLOEXEC));
  if (!all) return Error{Errc::exhausted, errno, "epoll_create1"};
  const auto add = [&all](int fd) {
    epoll_event readable{.events = EPOLLIN, .data = {.fd = fd}};
    return ::epoll_ctl(all.get(), EPOLL_CTL_ADD, fd, &readable) == 0;
  };
  bool added = add(own.fd());
  for (const int fd : fds) added = added && add(fd);
  if (!added) return Error{Errc::exhausted, errno, "epoll_ctl"};
  return JointWake(std::move(own), std::move(all));
}

GpuDeviceState::GpuDeviceState(std::unique_ptr<GpuFrameOwner> owner, std::unique_ptr<FrameFiller> filler,
                               JointWake owner_wake, JointWake writer_wake)
    : owner_(std::move(owner)),
      filler_(std::move(filler)),
      owner_wake_(std::move(owner_wake)),
      writer_wake_(std::move(writer_wake)),
      frame_bytes_(owner_->limits().frame_bytes) {}

void GpuDeviceState::create(std::uint64_t tag) { owner_->create(tag); }

std::size_t GpuDeviceState::reap(std::span<CreateDone> done) {
  owner_wake_.consume();
  std::array<CreateDone, 64> some;
  for (std::size_t count = some.size(); count == some.size();) {
    count = owner_->reap(some);
    for (const CreateDone& creation : std::span(some).first(count)) {
      if (creation.result == CreateResult::created) {
        made_.push_back(creation);
      } else {
        answer(creation);
      }
    }
  }
  const FenceId before = reached_;
  poll();
  // The filler's own descriptor is not readable any more.
  if (reached_ != before || untold_loss_) writer_wake_.signal();
  const std::size_t count = std::min(done.size(), answers_.size());
  std::copy_n(answers_.begin(), count, done.begin());
  answers_.erase(answers_.begin(), answers_.begin() + static_cast<std::ptrdiff_t>(count));
  if (!answers_.empty()) owner_wake_.signal();
  return count;
}

Result<FenceId> GpuDeviceState::reached() {
  writer_wake_.consume();
  poll();
  if (untold_loss_) {
    const Error error = *untold_loss_;
    untold_loss_.reset();
    return error;
  }
  if (owner_->stats().quarantined) return Error{Errc::closed, 0, "the GPU is given up"};
  return reached_;
}

void GpuDeviceState::destroy(FrameId frame) {
  CHECK(frames_.contains(frame));
  begin_destruction(frame);
  pump();
}

void GpuDeviceState::begin_destruction(FrameId frame) {
  const bool mapped = is_mapped(at(frame));
  frames_.erase(frame);
  if (!mapped) return owner_->destroy(frame);
  owner_->condemn(frame);
  condemned_.push_back(frame);
}

Result<> GpuDeviceState::map_to_read(FrameId frame) {
  Frame& entry = at(frame);
  if (is_mapped(entry)) return {};
  entry.mapping = TRY(filler_->map(frame, owner_->descriptor(frame), frame_bytes_, FrameFiller::Use::read));
  entry.mapped_by = filler_->incarnation();
  entry.fillable = entry.unmappable = false;
  mapping_.push_back({.fence = entry.mapping, .frame = frame});
  return {};
}

GpuDeviceState::Frame& GpuDeviceState::at(FrameId frame) {
  const auto found = frames_.find(frame);
  CHECK(found != frames_.end());
  return found->second;
}

void GpuDeviceState::poll() {
  const Result<FenceId> reached = filler_->reached();
  if (!reached) {
    lose(reached.error());
  } else {
    reached_ = *reached;
  }
  while (!unmapping_.empty() && unmapping_.front().fence <= reached_) {
    owner_->destroy(unmapping_.front().frame);
    unmapping_.pop_front();
  }
  while (!mapping_.empty() && mapping_.front().fence <= reached_) {
    hear_of_mapping(mapping_.front());
    mapping_.pop_front();
  }
  while (!zeroing_.empty() && zeroing_.front().fence <= reached_) {
    const Zeroing zeroed = zeroing_.front();
    zeroing_.pop_front();
    finish_zeroing(zeroed);
  }
  pump();
}

void GpuDeviceState::pump() {
  if (condemned_.empty() && made_.empty() && unmapped_.empty()) return;
  while (!unmapped_.empty() && forget_mapping_of(unmapped_.front())) unmapped_.pop_front();
  while (!condemned_.empty() && unmap_next()) {
  }
  while (!made_.empty() && map_next()) {
  }
  // Nobody else is sure to come before their fences.
  filler_->flush();
}

// False when the filler takes no more for now.
bool GpuDeviceState::unmap_next() {
  const FrameId frame = condemned_.front();
  const Result<FenceId> fence = filler_->unmap(frame);
  if (!fence && fence.error().code == Errc::busy) return false;
  condemned_.pop_front();
  if (fence) {
    unmapping_.push_back({.fence = *fence, .frame = frame});
  } else {
    owner_->destroy(frame);
  }
  return true;
}

// The frame may be destroyed by now, or another one by its number.
void GpuDeviceState::hear_of_mapping(const FrameFence& mapped) {
  const std::optional<Error> failure = filler_->take_map_failure(mapped.fence);
  const auto found = frames_.find(mapped.frame);
  if (found == frames_.end() || found->second.mapping != mapped.fence) return;
  found->second.mapping = FenceId{};
  if (!failure) return;
  found->second.unmappable = true;
  unmapped_.push_back(mapped.frame);
}

// False when the filler takes no more for now. Until then what uses the frame fails again.
bool GpuDeviceState::forget_mapping_of(FrameId frame) {
  const auto found = frames_.find(frame);
  if (found == frames_.end() || !found->second.unmappable) return true;
  const Result<FenceId> fence = filler_->unmap(frame);
  if (!fence && fence.error().code == Errc::busy) return false;
  found->second.unmappable = false;
  found->second.mapped_by = 0;
  return true;
}

bool GpuDeviceState::map_next() {
  const CreateDone creation = made_.front();
  const Result<FenceId> fence =
      filler_->map(creation.frame, owner_->descriptor(creation.frame), frame_bytes_, FrameFiller::Use::fill);
  // Without a filler creations wait for the next one; their users' bound is that of the filler's replacement.
  if (!fence && (fence.error().code == Errc::busy || fence.error().code == Errc::device)) return false;
  made_.pop_front();
  if (fence) {
    zeroing_.push_back({.fence = *fence, .creation = creation});
    return true;
  }
  owner_->destroy(creation.frame);
  fail(creation, fence.error().code == Errc::exhausted ? CreateResult::fd_limit : CreateResult::lost,
       fence.error());
  return true;
}

void GpuDeviceState::finish_zeroing(const Zeroing& zeroed) {
  const FrameId frame = zeroed.creation.frame;
  frames_[frame] = {.mapped_by = filler_->incarnation(), .fillable = true};
  const std::optional<Error> failure = filler_->take_map_failure(zeroed.fence);
  if (!failure) return answer(zeroed.creation);
  begin_destruction(frame);
  fail(zeroed.creation, failure->code == Errc::exhausted ? CreateResult::exhausted : CreateResult::lost,
       *failure);
}

void GpuDeviceState::lose(Error error) {
  untold_loss_ = error;
  mapping_.clear();
  unmapped_.clear();
  for (const FrameFence& unmapped : std::exchange(unmapping_, {})) owner_->destroy(unmapped.frame);
  for (const FrameId frame : std::exchange(condemned_, {})) owner_->destroy(frame);
  for (const Zeroing& half : std::exchange(zeroing_, {})) create_again(half.creation);
  // Those that nobody has heard of: the next filler could not fill what this one zeroed.
  for (const CreateDone& creation : std::exchange(answers_, {})) {
    if (creation.result == CreateResult::created) {
      frames_.erase(creation.frame);
      create_again(creation);
    } else {
      answer(creation);
    }
  }
}

void GpuDeviceState::create_again(const CreateDone& creation) {
  owner_->destroy(creation.frame);
  owner_->create(creation.tag);
}

void GpuDeviceState::answer(CreateDone creation) {
  if (answers_.empty()) owner_wake_.signal();
  answers_.push_back(creation);
}

void GpuDeviceState::fail(const CreateDone& creation, CreateResult result, Error error) {
  answer({.tag = creation.tag, .result = result, .native = error.native});
}

}  // namespace penstock
