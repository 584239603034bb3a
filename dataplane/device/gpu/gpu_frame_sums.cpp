// SPDX-License-Identifier: Apache-2.0
// GpuFrameWriter: checksums of frames.
#include <cstring>
#include <utility>

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
  const std::uint64_t wanted = sum_bytes + checksum_tiles(bytes) * sizeof(ChecksumTile);
  if (sum_memory_ && sum_memory_->chunk_bytes() >= wanted) return {};
  sum_memory_.reset();
  const DriverCode made = Staging::make(*context_, wanted, 1, sum_memory_);
  if (made.ok()) sum_at_ = sum_memory_->take().data();
  return made;
}

Result<FenceId> GpuFrameWriter::checksum(FrameId frame) {
  if (!has_kernels_) return Error{Errc::unsupported, 0, "checksum without device code"};
  TRY(ready_to_queue());
  if (open_sum_) return Error{Errc::busy, 0, "checksum"};
  MappedFrame& mapped = at(frame);
  DriverCode code = prepare_sum(mapped.bytes);
  // Behind what fills the frame, on its own stream.
  if (code.ok()) code = wait_for(*sum_stream_, mapped.last);
  if (!code.ok()) return lose(code);
  tiles_.clear();
  cut_tiles(static_cast<std::uint64_t>(mapped.at), mapped.bytes, 0, tiles_);
  std::memset(sum_at_, 0, sum_bytes);
  std::memcpy(sum_at_ + sum_bytes, tiles_.data(), tiles_.size() * sizeof(ChecksumTile));
  const DeviceAddress sums = sum_memory_->device_address(sum_at_);
  code = context_->launch_checksum(sums + sum_bytes, static_cast<std::uint32_t>(tiles_.size()), sums,
                                   *sum_stream_);
  if (!code.ok()) return lose(code);
  const FenceId fence = TRY(fence_behind(*sum_stream_));
  open_sum_ = OpenSum{.frame = frame, .fence = fence, .bytes = mapped.bytes};
  return fence;
}

std::optional<Result<std::uint64_t>> GpuFrameWriter::take_checksum(FenceId fence) {
  CHECK(open_sum_ && open_sum_->fence == fence);
  {
    const std::lock_guard lock(mutex_);
    if (!loss_.ok()) return Error{Errc::device, loss_.native, loss_.call};
    if (reached_ < fence) return std::nullopt;
  }
  std::uint64_t sum = 0;
  std::memcpy(&sum, sum_at_, sizeof sum);
  return checksum_total(sum, std::exchange(open_sum_, std::nullopt)->bytes);
}

// Before its mapping goes.
DriverCode GpuFrameWriter::end_sum_of(FrameId frame) {
  if (!open_sum_ || open_sum_->frame != frame) return {};
  return context_->synchronize(*sum_stream_);
}

}  // namespace penstock
