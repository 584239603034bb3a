// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_frame_owner.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {

Result<std::unique_ptr<GpuFrameOwner>> GpuFrameOwner::open(std::shared_ptr<GpuDriver> driver,
                                                           const GpuFrameOptions& options,
                                                           std::shared_ptr<HeadroomSource> headroom) {
  const GpuDescription& gpu = driver->description();
  if (!gpu.has_vmm) return Error{Errc::unsupported, 0, "GPU without virtual memory management"};
  if (options.frame_bytes == 0 || options.frame_bytes % gpu.granularity_bytes != 0) {
    return Error{Errc::invalid, 0, "GPU frame size"};
  }
  if (options.capacity_bytes < options.frame_bytes) return Error{Errc::invalid, 0, "GPU capacity"};
  EventFd wake = TRY(EventFd::create());
  return std::unique_ptr<GpuFrameOwner>(
      new GpuFrameOwner(std::move(driver), options, std::move(headroom), std::move(wake)));
}

GpuFrameOwner::GpuFrameOwner(std::shared_ptr<GpuDriver> driver, const GpuFrameOptions& options,
                             std::shared_ptr<HeadroomSource> headroom, EventFd wake)
    : frame_bytes_(options.frame_bytes),
      maker_(std::move(driver), options, std::move(headroom), std::move(wake)),
      entries_(maker_.capacity_frames()) {
  CHECK(entries_.size() <= UINT32_MAX);
  for (std::uint32_t id = 0; id < entries_.size(); ++id) free_.push_back(FrameId{id});
}

GpuFrameOwner::~GpuFrameOwner() {
  for (Entry& entry : entries_) {
    if (entry.memory.fd < 0) continue;
    if (!entry.condemned) maker_.condemn();
    maker_.bury(entry.memory);
  }
}

DeviceLimits GpuFrameOwner::limits() const {
  return {.frame_bytes = frame_bytes_,
          .capacity_bytes = maker_.capacity_frames() * frame_bytes_,
          .tensor_alignment = gpu_tensor_alignment,
          .frames_are_addressable = false};
}

std::size_t GpuFrameOwner::reap(std::span<CreateDone> done) {
  answers_.clear();
  maker_.take(done.size(), answers_);
  for (std::size_t at = 0; at < answers_.size(); ++at) {
    const GpuFrameAnswer& answer = answers_[at];
    done[at] = CreateDone{.tag = answer.tag, .result = answer.result, .native = answer.native};
    if (answer.result != CreateResult::created) continue;
    CHECK(!free_.empty());
    done[at].frame = free_.front();
    free_.pop_front();
    entries_[raw(done[at].frame)] = Entry{.memory = answer.frame};
  }
  return answers_.size();
}

void GpuFrameOwner::condemn(FrameId frame) {
  Entry& entry = at(frame);
  CHECK(!entry.condemned);
  entry.condemned = true;
  maker_.condemn();
}

void GpuFrameOwner::destroy(FrameId frame) {
  Entry& entry = at(frame);
  if (!entry.condemned) maker_.condemn();
  maker_.bury(entry.memory);
  entry = Entry{};
  free_.push_back(frame);
}

Result<ExportedFrame> GpuFrameOwner::share(FrameId frame, FrameAccess access) {
  Entry& entry = at(frame);
  CHECK(!entry.condemned && entry.published.value_or(access) == access);
  entry.published = access;
  return ExportedFrame::lent(entry.memory.fd);
}

GpuFrameOwner::Entry& GpuFrameOwner::at(FrameId frame) {
  CHECK(raw(frame) < entries_.size());
  Entry& entry = entries_[raw(frame)];
  CHECK(entry.memory.fd >= 0);
  return entry;
}

std::uint64_t default_gpu_capacity(std::uint64_t total_bytes, std::uint64_t frame_bytes) {
  const std::uint64_t others = std::max(total_bytes / 20, 512 * mib);
  return total_bytes > others ? round_down(total_bytes - others, frame_bytes) : 0;
}

std::uint64_t default_gpu_frame_bytes(const GpuDescription& gpu) {
  return round_up(32 * mib, std::max<std::uint64_t>(gpu.granularity_bytes, 1));
}

}  // namespace penstock
