// SPDX-License-Identifier: Apache-2.0
// GpuFrameWriter: its beginning, the thread that waits, the loss and the end.
#include <utility>

#include <pthread.h>

#include "dataplane/base/check.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"

namespace penstock {

Result<std::unique_ptr<GpuFrameWriter>> GpuFrameWriter::open(std::shared_ptr<GpuDriver> driver,
                                                             const GpuWriterOptions& options) {
  CHECK(options.streams > 0 && options.queue_depth > 0);
  if (!driver->description().has_vmm) {
    return Error{Errc::unsupported, 0, "GPU without virtual memory management"};
  }
  EventFd wake = TRY(EventFd::create());
  std::unique_ptr<DriverContext> context;
  const DriverCode opened = driver->open_context(context);
  if (!opened.ok()) return to_error(opened);
  std::unique_ptr<GpuFrameWriter> writer(
      new GpuFrameWriter(std::move(driver), std::move(context), options, std::move(wake)));
  TRY(writer->prepare());
  return writer;
}

GpuFrameWriter::GpuFrameWriter(std::shared_ptr<GpuDriver> driver, std::unique_ptr<DriverContext> context,
                               const GpuWriterOptions& options, EventFd wake)
    : driver_(std::move(driver)),
      context_(std::move(context)),
      options_(options),
      wake_(std::move(wake)),
      waiter_([this] { wait_for_events(); }) {}

Result<> GpuFrameWriter::prepare() {
  while (streams_.size() < options_.streams) {
    StreamHandle stream{};
    const DriverCode made = context_->make_stream(stream);
    if (!made.ok()) return to_error(made);
    streams_.push_back(stream);
  }
  const DriverCode staged =
      Staging::make(*context_, options_.staging_chunk_bytes, options_.staging_chunks, staging_);
  if (!staged.ok()) return to_error(staged);
  const DriverCode loaded = context_->load_kernels();
  has_kernels_ = loaded.ok();
  // Any reason but a dead context: the host converts instead.
  if (classify(loaded) == DriverClass::context_dead || classify(loaded) == DriverClass::device_dead) {
    return to_error(loaded);
  }
  return {};
}

GpuFrameWriter::~GpuFrameWriter() {
  static_cast<void>(insist([&] { return context_->enter(); }));
  // In a lost context the answers are all the same error, and nothing runs.
  for (const StreamHandle stream : streams_) static_cast<void>(context_->synchronize(stream));
  if (sum_stream_) static_cast<void>(context_->synchronize(*sum_stream_));
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  waiter_.join();
  clean_up();
}

// Whatever the driver answers: there is nobody left to tell.
void GpuFrameWriter::clean_up() {
  for (const auto& [id, frame] : frames_) {
    if (!frame.failed) static_cast<void>(unmap_frame(frame));
  }
  staging_.reset();
  sum_memory_.reset();
  for (const EventHandle event : events_made_) {
    static_cast<void>(insist([&] { return context_->destroy_event(event); }));
  }
  for (const StreamHandle stream : streams_) {
    static_cast<void>(insist([&] { return context_->destroy_stream(stream); }));
  }
  if (sum_stream_) static_cast<void>(insist([&] { return context_->destroy_stream(*sum_stream_); }));
  for (const auto& [at, registered] : registered_) unregister(registered);
}

Result<> GpuFrameWriter::use_staging(std::span<std::byte> memory, int) {
  CHECK(registered_.empty());
  const Registered registered = TRY(register_memory(memory));
  if (registered.memory.empty()) return {};
  if (!registered.on_device) has_kernels_ = false;
  registered_.emplace(memory.data(), registered);
  return {};
}

Result<FenceId> GpuFrameWriter::add_source(SourceId source, std::span<std::byte> memory, int) {
  TRY(ready_to_queue());
  const Registered registered = TRY(register_memory(memory));
  if (!registered.memory.empty()) registered_.emplace(memory.data(), registered);
  const bool added = sources_.emplace(source, memory.data()).second;
  CHECK(added);
  return fence_now();
}

Result<FenceId> GpuFrameWriter::drop_source(SourceId source) {
  TRY(ready_to_queue());
  const auto known = sources_.find(source);
  CHECK(known != sources_.end());
  if (const auto found = registered_.find(known->second); found != registered_.end()) {
    unregister(found->second);
    registered_.erase(found);
  }
  sources_.erase(known);
  return fence_now();
}

// Empty memory: the driver refused, so that copies from it go through the driver's own.
Result<GpuFrameWriter::Registered> GpuFrameWriter::register_memory(std::span<std::byte> memory) {
  const DriverCode entered = context_->enter();
  if (!entered.ok()) return lose(entered);
  const DriverCode code = context_->register_host(memory.data(), memory.size());
  if (classify(code) == DriverClass::context_dead || classify(code) == DriverClass::device_dead)
    return lose(code);
  if (!code.ok()) return Registered{};
  Registered registered{.memory = memory, .on_device = {}};
  DeviceAddress seen{};
  if (context_->device_address(memory.data(), seen).ok()) registered.on_device = seen;
  return registered;
}

void GpuFrameWriter::unregister(const Registered& registered) {
  static_cast<void>(insist([&] { return context_->unregister_host(registered.memory.data()); }));
}

Result<DeviceMemoryFigures> GpuFrameWriter::memory_figures() {
  DeviceMemoryFigures figures;
  DriverCode code = context_->enter();
  if (code.ok()) code = context_->memory_figures(figures);
  if (!code.ok()) return to_error(code);
  return figures;
}

DriverCode GpuFrameWriter::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

// Not lost, room in the queue, and the context is this thread's. Gives back what the waiter has freed.
Result<> GpuFrameWriter::ready_to_queue() {
  TRY(can_queue());
  return queue_held();
}

Result<> GpuFrameWriter::can_queue() {
  {
    const std::lock_guard lock(mutex_);
    if (!loss_.ok()) return lost();
    staging_->give_back(std::exchange(chunks_freed_, 0));
    if (pending_.size() >= options_.queue_depth) return Error{Errc::busy, 0, "GPU copy queue"};
  }
  const DriverCode entered = context_->enter();
  if (!entered.ok()) return lose(entered);
  return {};
}

GpuFrameWriter::MappedFrame& GpuFrameWriter::at(FrameId frame) {
  const auto entry = frames_.find(raw(frame));
  CHECK(entry != frames_.end() && !entry->second.failed);
  return entry->second;
}

// Its map's answer may not have been heard yet.
Result<> GpuFrameWriter::check_mapped(FrameId frame) {
  const auto entry = frames_.find(raw(frame));
  CHECK(entry != frames_.end());
  if (entry->second.failed) return Error{Errc::exhausted, 0, "frame that could not be mapped"};
  return {};
}

Error GpuFrameWriter::lose(DriverCode code) {
  const std::lock_guard lock(mutex_);
  if (loss_.ok()) {
    loss_ = code;
    if (!woken_) wake_.signal();
    woken_ = true;
  }
  return {Errc::device, code.native, code.call};
}

// REQUIRES: mutex_ is held, and loss_ set.
Error GpuFrameWriter::lost() const {
  return {loss_told_ ? Errc::closed : Errc::device, loss_.native, loss_.call};
}

void GpuFrameWriter::wait_for_events() {
  ::pthread_setname_np(::pthread_self(), "penstock-events");
  const DriverCode entered = context_->enter();
  if (!entered.ok()) static_cast<void>(lose(entered));
  std::unique_lock lock(mutex_);
  while (loss_.ok()) {
    work_.wait(lock, [this] { return !pending_.empty() || stopping_; });
    if (pending_.empty()) return;
    const Pending next = pending_.front();
    if (next.has_event) {
      lock.unlock();
      const DriverCode code = context_->wait_event(next.event);
      if (!code.ok()) {
        static_cast<void>(lose(code));
        return;
      }
      lock.lock();
      idle_events_.push_back(next.event);
    }
    pending_.pop_front();
    chunks_freed_ += next.chunks;
    reached_ = next.fence;
    if (!woken_) wake_.signal();
    woken_ = true;
  }
}

}  // namespace penstock
