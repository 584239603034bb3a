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
  while (made.ok() && sum_memory_->free_chunks() > 0) idle_sums_.push_back(sum_memory_->take().data());
  return made;
}

Result<FenceId> GpuFrameWriter::checksum(FrameId frame) {
  if (!has_kernels_) return Error{Errc::unsupported, 0, "checksum without device code"};
  TRY(ready_to_queue());
  MappedFrame& mapped = at(frame);
  DriverCode code = prepare_sum(mapped.bytes);
  if (code.ok() && idle_sums_.empty()) return Error{Errc::busy, 0, "checksum"};
  // Behind what fills the frame, on its own stream.
  if (code.ok()) code = wait_for(*sum_stream_, mapped.last);
  if (!code.ok()) return lose(code);
  tiles_.clear();
  cut_tiles(static_cast<std::uint64_t>(mapped.at), mapped.bytes, 0, tiles_);
  std::byte* const sum = idle_sums_.back();
  CHECK(sum_bytes + tiles_.size() * sizeof(ChecksumTile) <= sum_memory_->chunk_bytes());
  std::memset(sum, 0, sum_bytes);
  std::memcpy(sum + sum_bytes, tiles_.data(), tiles_.size() * sizeof(ChecksumTile));
  const DeviceAddress sums = sum_memory_->device_address(sum);
  code = context_->launch_checksum(sums + sum_bytes, static_cast<std::uint32_t>(tiles_.size()), sums,
                                   *sum_stream_);
  if (!code.ok()) return lose(code);
  const FenceId fence = TRY(fence_behind(*sum_stream_));
  idle_sums_.pop_back();
  open_sums_.push_back({.frame = frame, .fence = fence, .bytes = mapped.bytes, .at = sum});
  return fence;
}

std::optional<Result<std::uint64_t>> GpuFrameWriter::take_checksum(FenceId fence) {
  const auto open = std::ranges::find(open_sums_, fence, &OpenSum::fence);
  CHECK(open != open_sums_.end());
  {
    const std::lock_guard lock(mutex_);
    if (!loss_.ok()) return Error{Errc::device, loss_.native, loss_.call};
    if (reached_ < fence) return std::nullopt;
  }
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
