// SPDX-License-Identifier: Apache-2.0
// GpuFrameWriter: checksums of frames.
#include <algorithm>
#include <cstring>

#include "dataplane/base/check.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "dataplane/kernels/convert.hpp"
#include "dataplane/kernels/device_code.hpp"

namespace penstock {
namespace {

// The sum lies before the list, on a line of its own.
constexpr std::uint64_t sum_bytes = 128;

}  // namespace

// Frames of a device are of one size.
DriverCode GpuFrameWriter::prepare_sum(std::uint64_t bytes) {
  if (!sum_stream_) {
    StreamHandle stream{};
    const DriverCode made = context_->make_stream(stream);
    if (!made.ok()) return made;
    sum_stream_ = stream;
  }
  if (sum_memory_) return {};
  const DriverCode made = Staging::make(*context_, sum_bytes + checksum_tiles(bytes) * sizeof(ChecksumTile),
                                        options_.sums, sum_memory_);
  if (!made.ok()) sum_memory_.reset();
  while (sum_memory_ && sum_memory_->free_chunks() > 0) idle_sums_.push_back(sum_memory_->take().data());
  return made;
}

Result<FenceId> GpuFrameWriter::checksum(FrameId frame) {
  if (!has_kernels_) return Error{Errc::unsupported, 0, "checksum without device code"};
  TRY(ready_to_queue());
  const MappedFrame& mapped = at(frame);
  const DriverCode prepared = prepare_sum(mapped.bytes);
  if (!prepared.ok()) return fail_sum(prepared);
  if (idle_sums_.empty()) return Error{Errc::busy, 0, "checksum"};
  EventHandle event{};
  DriverCode code = take_event(event);
  if (!code.ok()) return fail_sum(code);
  std::byte* const sum = idle_sums_.back();
  code = launch_sum(mapped, sum, event);
  if (!code.ok()) {
    // The kernel may run all the same: its memory is used again only when it has ended.
    const DriverCode idle = context_->synchronize(*sum_stream_);
    if (!idle.ok()) return lose(idle);
    give_back(event);
    return fail_sum(code);
  }
  const FenceId fence = fence_at(event, 0);
  idle_sums_.pop_back();
  open_sums_.push_back({.frame = frame, .fence = fence, .bytes = mapped.bytes, .at = sum});
  return fence;
}

// Behind what fills the frame, on the sums' own stream.
DriverCode GpuFrameWriter::launch_sum(const MappedFrame& mapped, std::byte* at, EventHandle event) {
  DriverCode code = wait_for(*sum_stream_, mapped.last);
  if (!code.ok()) return code;
  tiles_.clear();
  cut_tiles(static_cast<std::uint64_t>(mapped.at), mapped.bytes, 0, tiles_);
  const std::uint64_t list_bytes = tiles_.size() * sizeof(ChecksumTile);
  CHECK(sum_bytes + list_bytes <= sum_memory_->chunk_bytes());
  std::memset(at, 0, sum_bytes);
  std::memcpy(at + sum_bytes, tiles_.data(), list_bytes);
  const DeviceAddress sums = sum_memory_->device_address(at);
  code = context_->launch_checksum(sums + sum_bytes, static_cast<std::uint32_t>(tiles_.size()), sums,
                                   *sum_stream_);
  return code.ok() ? context_->record_event(event, *sum_stream_) : code;
}

Result<FenceId> GpuFrameWriter::fail_sum(DriverCode code) {
  const DriverClass meaning = classify(code);
  if (meaning == DriverClass::context_dead || meaning == DriverClass::device_dead) return lose(code);
  const FenceId fence = fence_now();
  const Errc why = meaning == DriverClass::pressure ? Errc::exhausted : Errc::denied;
  failed_sums_.emplace(fence, Error{why, code.native, code.call});
  return fence;
}

std::optional<Result<std::uint64_t>> GpuFrameWriter::take_checksum(FenceId fence) {
  {
    const std::lock_guard lock(mutex_);
    if (!loss_.ok()) return Error{Errc::device, loss_.native, loss_.call};
    if (reached_ < fence) return std::nullopt;
  }
  if (const auto failed = failed_sums_.find(fence); failed != failed_sums_.end())
    return failed_sums_.extract(failed).mapped();
  const auto open = std::ranges::find(open_sums_, fence, &OpenSum::fence);
  CHECK(open != open_sums_.end());
  std::uint64_t sum = 0;
  std::memcpy(&sum, open->at, sizeof sum);
  const std::uint64_t total = checksum_total(sum, open->bytes);
  idle_sums_.push_back(open->at);
  open_sums_.erase(open);
  return total;
}

// Before its mapping goes.
DriverCode GpuFrameWriter::end_sum_of(FrameId frame) {
  if (std::ranges::find(open_sums_, frame, &OpenSum::frame) == open_sums_.end()) return {};
  return context_->synchronize(*sum_stream_);
}

}  // namespace penstock
