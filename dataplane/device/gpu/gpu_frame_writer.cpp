// SPDX-License-Identifier: Apache-2.0
// Frames, their copies and their fences. gpu_writer_life.cpp: the beginning, the waiter and the end.
#include "dataplane/device/gpu/gpu_frame_writer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/device_code.hpp"

namespace penstock {

Result<FenceId> GpuFrameWriter::map(FrameId frame, int fd, std::uint64_t bytes, Use use) {
  TRY(ready_to_queue());
  CHECK(!frames_.contains(raw(frame)));
  MappedFrame mapped{.bytes = bytes, .use = use};
  bool undone = true;
  const DriverCode code = map_frame(fd, mapped, undone);
  mapped.failed = !code.ok();
  if (mapped.failed) {
    const DriverClass meaning = classify(code);
    // What can't be undone is a leak that only the end of the process mends.
    if (!undone || meaning == DriverClass::context_dead || meaning == DriverClass::device_dead)
      return lose(code);
    mapped.last = fence_now();
    map_failures_.emplace(mapped.last, to_error(code));
  } else if (use == Use::fill) {
    const DriverCode zeroed = context_->zero(mapped.at, bytes, stream_of(frame));
    if (!zeroed.ok()) {
      frames_.emplace(raw(frame), mapped);
      return lose(zeroed);
    }
    const Result<FenceId> fence = fence_behind(stream_of(frame));
    if (fence) mapped.last = *fence;
    if (!fence) frames_.emplace(raw(frame), mapped);
    if (!fence) return fence.error();
  } else {
    mapped.last = fence_now();
  }
  frames_.emplace(raw(frame), mapped);
  return mapped.last;
}

// The range and the imported handle are given back when a later step fails. Access is set while the descriptor is open,
// and the handle is released only then: HIP resolves imports late.
DriverCode GpuFrameWriter::map_frame(int fd, MappedFrame& frame, bool& undone) {
  DeviceAddress range{};
  DriverCode code = driver_->reserve(frame.bytes, natural_alignment(frame.bytes), range);
  if (!code.ok()) return code;
  MemoryHandle handle{};
  code = driver_->import_fd(fd, handle);
  if (code.ok()) {
    code = driver_->map(range, frame.bytes, handle);
    if (code.ok()) {
      const MappedRights rights = frame.use == Use::fill ? MappedRights::read_write : MappedRights::read;
      code = driver_->set_access(range, frame.bytes, rights);
      if (!code.ok()) undone = insist([&] { return driver_->unmap(range, frame.bytes); }).ok();
    }
    // A mapping keeps the memory; an imported handle is one reference more.
    const DriverCode released = insist([&] { return driver_->release(handle); });
    if (code.ok() && !released.ok()) {
      undone = insist([&] { return driver_->unmap(range, frame.bytes); }).ok();
      code = released;
    }
    undone = undone && released.ok();
  }
  if (code.ok()) {
    frame.at = range;
    return code;
  }
  undone = undone && insist([&] { return driver_->free_range(range, frame.bytes); }).ok();
  return code;
}

std::optional<Error> GpuFrameWriter::take_map_failure(FenceId fence) {
  const auto found = map_failures_.find(fence);
  if (found == map_failures_.end()) return std::nullopt;
  const Error error = found->second;
  map_failures_.erase(found);
  return error;
}

Result<FenceId> GpuFrameWriter::unmap(FrameId frame) {
  TRY(ready_to_queue());
  const auto entry = frames_.find(raw(frame));
  CHECK(entry != frames_.end());
  if (!entry->second.failed) {
    // Unmapping under running work kills the context. Nothing runs, if the caller has seen the fences; if not, this waits.
    DriverCode idle = context_->synchronize(stream_of(frame));
    if (idle.ok()) idle = end_sum_of(frame);
    if (!idle.ok()) return lose(idle);
    const DriverCode code = unmap_frame(entry->second);
    if (!code.ok()) return lose(code);
  }
  frames_.erase(entry);
  return fence_now();
}

DriverCode GpuFrameWriter::unmap_frame(const MappedFrame& frame) {
  const DriverCode code = insist([&] { return driver_->unmap(frame.at, frame.bytes); });
  return code.ok() ? insist([&] { return driver_->free_range(frame.at, frame.bytes); }) : code;
}

Result<FenceId> GpuFrameWriter::copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                                     const CopyConversion& conversion) {
  TRY(can_queue());
  TRY(check_mapped(frame));
  MappedFrame& mapped = at(frame);
  CHECK(mapped.use == Use::fill && offset <= mapped.bytes);
  const std::uint64_t room = mapped.bytes - offset;
  const StreamHandle stream = stream_of(frame);
  std::size_t chunks = 0;
  if (conversion.stored == conversion.wanted && TRY(hold_back(mapped.at + offset, source, stream))) {
    CHECK(source.size() <= room);
    newest_ = FenceId{raw(newest_) + 1};
    mapped.last = newest_;
    return mapped.last;
  }
  TRY(queue_held());
  if (conversion.stored != conversion.wanted) {
    const std::uint64_t elements = source.size() * 8 / dtype_bits(conversion.stored);
    CHECK(convertible(conversion.stored, conversion.wanted));
    CHECK(elements * dtype_bits(conversion.wanted) / 8 <= room);
    TRY(seen_by_kernels(source) ? copy_scattered(mapped.at + offset, source, conversion, stream, chunks)
                                : copy_converted(mapped.at + offset, source, conversion, stream, chunks));
  } else if (!source.empty()) {
    CHECK(source.size() <= room);
    const DriverCode code = context_->copy_in(mapped.at + offset, source.data(), source.size(), stream);
    if (!code.ok()) return lose(code);
  }
  mapped.last = TRY(fence_behind(stream, chunks));
  return mapped.last;
}

std::optional<DeviceAddress> GpuFrameWriter::seen_by_kernels(std::span<const std::byte> source) const {
  auto found = registered_.upper_bound(source.data());
  if (!has_kernels_ || source.empty() || found == registered_.begin()) return std::nullopt;
  const Registered& registered = (--found)->second;
  const std::byte* const end = registered.memory.data() + registered.memory.size();
  if (!registered.on_device || source.data() + source.size() > end) return std::nullopt;
  return *registered.on_device + static_cast<std::uint64_t>(source.data() - registered.memory.data());
}

// On the device, which reads the staged bytes where they are and writes them to their place. The list of pieces lies in
// one chunk.
Result<> GpuFrameWriter::copy_scattered(DeviceAddress to, std::span<const std::byte> source,
                                        const CopyConversion& conversion, StreamHandle stream,
                                        std::size_t& chunks) {
  const std::optional<DeviceAddress> seen = seen_by_kernels(source);
  CHECK(seen);
  const ScatterPiece whole{.source = static_cast<std::uint64_t>(*seen),
                           .destination = static_cast<std::uint64_t>(to),
                           .elements = source.size() * 8 / dtype_bits(conversion.stored),
                           .scale = conversion.scale,
                           .stored = element_kind(conversion.stored),
                           .wanted = element_kind(conversion.wanted),
                           .zero = 0};
  pieces_.clear();
  cut_pieces(whole, pieces_);
  const std::uint64_t list_bytes = pieces_.size() * sizeof(ScatterPiece);
  if (list_bytes > staging_->chunk_bytes()) return copy_converted(to, source, conversion, stream, chunks);
  if (staging_->free_chunks() == 0) return Error{Errc::busy, 0, "staging"};
  const std::span<std::byte> list = staging_->take();
  ++chunks;
  std::memcpy(list.data(), pieces_.data(), list_bytes);
  const DriverCode code = context_->launch_scatter(staging_->device_address(list.data()),
                                                   static_cast<std::uint32_t>(pieces_.size()), stream);
  if (!code.ok()) return lose(code);
  return {};
}

// On the processor, by the reference that device code must equal; a chunk of whole elements at a time.
Result<> GpuFrameWriter::copy_converted(DeviceAddress to, std::span<const std::byte> source,
                                        const CopyConversion& conversion, StreamHandle stream,
                                        std::size_t& chunks) {
  const std::uint64_t stored = dtype_bits(conversion.stored) / 8, wanted = dtype_bits(conversion.wanted) / 8;
  CHECK(source.size() % stored == 0);
  const std::uint64_t elements = source.size() / stored;
  const std::uint64_t elements_a_chunk = staging_->chunk_bytes() / wanted;
  const std::uint64_t needed = divide_up(elements, elements_a_chunk);
  if (needed > staging_->chunks()) return Error{Errc::invalid, 0, "conversion larger than the staging"};
  if (needed > staging_->free_chunks()) return Error{Errc::busy, 0, "staging"};
  for (std::uint64_t done = 0; done < elements; done += elements_a_chunk) {
    const std::uint64_t count = std::min(elements_a_chunk, elements - done);
    const std::span<std::byte> chunk = staging_->take().first(count * wanted);
    ++chunks;
    convert(conversion.stored, source.subspan(done * stored, count * stored), conversion.wanted, chunk,
            conversion.scale);
    const DriverCode code = context_->copy_in(to + done * wanted, chunk.data(), chunk.size(), stream);
    if (!code.ok()) return lose(code);
  }
  return {};
}

Result<FenceId> GpuFrameWriter::copy_frame(FrameId to, FrameId from) {
  TRY(ready_to_queue());
  CHECK(to != from);
  TRY(check_mapped(to));
  TRY(check_mapped(from));
  MappedFrame& target = at(to);
  MappedFrame& origin = at(from);
  CHECK(target.use == Use::fill && target.bytes == origin.bytes);
  const StreamHandle stream = stream_of(to);
  DriverCode code = wait_for(stream, origin.last);
  if (code.ok()) code = context_->copy_within(target.at, origin.at, target.bytes, stream);
  if (!code.ok()) return lose(code);
  const FenceId fence = TRY(fence_behind(stream));
  target.last = origin.last = fence;
  return fence;
}

Result<FenceId> GpuFrameWriter::read_out(FrameId frame, std::span<std::byte> to) {
  TRY(ready_to_queue());
  TRY(check_mapped(frame));
  MappedFrame& mapped = at(frame);
  CHECK(to.size() == mapped.bytes);
  const DriverCode code = context_->copy_out(to.data(), mapped.at, mapped.bytes, stream_of(frame));
  if (classify(code) == DriverClass::pressure) return to_error(code);
  if (!code.ok()) return lose(code);
  mapped.last = TRY(fence_behind(stream_of(frame)));
  return mapped.last;
}

// Work of another stream: its event is among the pending ones, or long past.
DriverCode GpuFrameWriter::wait_for(StreamHandle stream, FenceId fence) {
  const std::lock_guard lock(mutex_);
  if (fence <= reached_) return {};
  for (const Pending& pending : pending_) {
    if (pending.fence < fence) continue;
    // The event of copies that were held back has a fence behind all of theirs.
    return pending.has_event ? context_->stream_waits(stream, pending.event) : DriverCode{};
  }
  return {};
}

Result<FenceId> GpuFrameWriter::fence_behind(StreamHandle stream, std::size_t chunks) {
  EventHandle event{};
  DriverCode code = take_event(event);
  if (classify(code) == DriverClass::pressure) {
    // Without an event the work is waited for here.
    code = context_->synchronize(stream);
    if (!code.ok()) return lose(code);
    return fence_now(chunks);
  }
  if (code.ok()) code = context_->record_event(event, stream);
  if (!code.ok()) return lose(code);
  return fence_at(event, chunks);
}

DriverCode GpuFrameWriter::take_event(EventHandle& event) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_events_.empty()) {
      event = idle_events_.back();
      idle_events_.pop_back();
      return {};
    }
  }
  const DriverCode made = context_->make_event(event);
  if (made.ok()) events_made_.push_back(event);
  return made;
}

void GpuFrameWriter::give_back(EventHandle event) {
  const std::lock_guard lock(mutex_);
  idle_events_.push_back(event);
}

FenceId GpuFrameWriter::fence_at(EventHandle event, std::size_t chunks) {
  newest_ = FenceId{raw(newest_) + 1};
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back({.fence = newest_, .has_event = true, .event = event, .chunks = chunks});
  }
  work_.notify_one();
  return newest_;
}

// Nothing on the GPU to wait for; reached after all earlier fences.
FenceId GpuFrameWriter::fence_now(std::size_t chunks) {
  newest_ = FenceId{raw(newest_) + 1};
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back({.fence = newest_, .has_event = false, .event = {}, .chunks = chunks});
  }
  work_.notify_one();
  return newest_;
}

Result<FenceId> GpuFrameWriter::reached() {
  flush();
  const std::lock_guard lock(mutex_);
  if (woken_) {
    wake_.consume();
    woken_ = false;
  }
  if (loss_.ok()) return reached_;
  const Error error = lost();
  loss_told_ = true;
  return error;
}

}  // namespace penstock
