// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame_writer.hpp"

#include <cstring>
#include <utility>

#include <pthread.h>

#include "dataplane/base/check.hpp"
#include "dataplane/kernels/convert.hpp"

namespace penstock {

Result<std::unique_ptr<HostFrameWriter>> HostFrameWriter::open(FrameTable& frames, std::size_t queue_depth) {
  CHECK(queue_depth > 0);
  EventFd wake = TRY(EventFd::create());
  return std::unique_ptr<HostFrameWriter>(new HostFrameWriter(frames, queue_depth, std::move(wake)));
}

HostFrameWriter::HostFrameWriter(FrameTable& frames, std::size_t queue_depth, EventFd wake)
    : frames_(frames), wake_(std::move(wake)), jobs_(queue_depth), thread_([this] { run(); }) {}

HostFrameWriter::~HostFrameWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

Result<> HostFrameWriter::attach(FrameId frame) {
  frames_.at(frame).attached = true;
  return {};
}

void HostFrameWriter::detach(FrameId frame) {
  LiveFrame& entry = frames_.at(frame);
  CHECK(entry.attached && frames_.idle(entry));
  entry.attached = false;
}

Result<FenceId> HostFrameWriter::copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                                      const CopyConversion& conversion) {
  LiveFrame& entry = frames_.at(frame);
  CHECK(entry.attached && entry.published != FrameAccess::shared_read_only);
  std::uint64_t bytes = source.size();
  if (conversion.stored != conversion.wanted) {
    CHECK(convertible(conversion.stored, conversion.wanted));
    const std::uint64_t bits = source.size() * 8;
    CHECK(bits % dtype_bits(conversion.stored) == 0);
    bytes = bits / dtype_bits(conversion.stored) * dtype_bits(conversion.wanted) / 8;
  }
  const std::span<std::byte> memory = entry.memory.bytes();
  CHECK(offset <= memory.size() && bytes <= memory.size() - offset);
  const FenceId fence = TRY(queue(
      CopyJob{.destination = memory.subspan(offset, bytes), .source = source, .conversion = conversion}));
  entry.last_fence = entry.last_write = fence;
  return fence;
}

Result<FenceId> HostFrameWriter::copy_frame(FrameId to, FrameId from) {
  LiveFrame& target = frames_.at(to);
  LiveFrame& origin = frames_.at(from);
  CHECK(to != from && target.attached && origin.attached);
  CHECK(target.published != FrameAccess::shared_read_only);
  const FenceId fence =
      TRY(queue(CopyJob{.destination = target.memory.bytes(), .source = origin.memory.bytes()}));
  target.last_fence = target.last_write = fence;
  origin.last_fence = fence;
  return fence;
}

std::span<std::byte> HostFrameWriter::address(FrameId frame) { return frames_.at(frame).memory.bytes(); }

Result<FenceId> HostFrameWriter::reached() {
  const std::lock_guard lock(mutex_);
  if (woken_) {
    wake_.consume();
    woken_ = false;
  }
  frames_.set_reached(reached_);
  return reached_;
}

Result<FenceId> HostFrameWriter::queue(CopyJob job) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_ == jobs_.size()) return Error{Errc::busy, 0, "host copy queue"};
    newest_ = FenceId{raw(newest_) + 1};
    job.fence = newest_;
    jobs_[(head_ + queued_) % jobs_.size()] = job;
    ++queued_;
  }
  work_.notify_one();
  return newest_;
}

void HostFrameWriter::run() {
  ::pthread_setname_np(::pthread_self(), "penstock-copier");
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return queued_ > 0 || stopping_; });
    if (stopping_) return;
    const CopyJob job = jobs_[head_];
    lock.unlock();
    execute(job);
    lock.lock();
    head_ = (head_ + 1) % jobs_.size();
    --queued_;
    reached_ = job.fence;
    if (!woken_) wake_.signal();
    woken_ = true;
  }
}

void HostFrameWriter::execute(const CopyJob& job) {
  const CopyConversion& conversion = job.conversion;
  if (conversion.stored != conversion.wanted) {
    convert(conversion.stored, job.source, conversion.wanted, job.destination, conversion.scale);
  } else if (!job.source.empty()) {
    std::memcpy(job.destination.data(), job.source.data(), job.source.size());
  }
}

}  // namespace penstock
