// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame_owner.hpp"

#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {

Result<std::unique_ptr<HostFrameOwner>> HostFrameOwner::open(const HostFrameOptions& options,
                                                             HeadroomSource& headroom) {
  if (options.frame_bytes == 0 || options.frame_bytes % small_page_bytes != 0) {
    return Error{Errc::invalid, 0, "host frame size"};
  }
  EventFd wake = TRY(EventFd::create());
  return std::unique_ptr<HostFrameOwner>(new HostFrameOwner(options, headroom, std::move(wake)));
}

HostFrameOwner::HostFrameOwner(const HostFrameOptions& options, HeadroomSource& headroom, EventFd wake)
    : frame_bytes_(options.frame_bytes),
      maker_(options, headroom, std::move(wake)),
      frames_(maker_.capacity_frames()) {}

DeviceLimits HostFrameOwner::limits() const {
  return DeviceLimits{.frame_bytes = frame_bytes_,
                      .capacity_bytes = maker_.capacity_frames() * frame_bytes_,
                      .tensor_alignment = 1,
                      .frames_are_addressable = true};
}

void HostFrameOwner::create(std::uint64_t tag) { maker_.want(tag); }

std::size_t HostFrameOwner::reap(std::span<CreateDone> done) {
  answers_.clear();
  maker_.take(done.size(), answers_);
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    FrameAnswer& answer = answers_[i];
    done[i] = CreateDone{.tag = answer.tag, .result = answer.result, .native = answer.native};
    if (answer.result == CreateResult::created) done[i].frame = frames_.add(std::move(answer.frame));
  }
  return answers_.size();
}

void HostFrameOwner::destroy(FrameId frame) { maker_.bury(frames_.remove(frame)); }

Result<ExportedFrame> HostFrameOwner::share(FrameId frame, FrameAccess access) {
  LiveFrame& entry = frames_.at(frame);
  CHECK(frames_.filled(entry));
  if (!entry.published) {
    TRY(entry.memory.seal(access));
    entry.published = access;
  }
  CHECK(entry.published == access);
  return ExportedFrame::lent(entry.memory.fd());
}

}  // namespace penstock
