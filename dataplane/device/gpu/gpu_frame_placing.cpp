// SPDX-License-Identifier: Apache-2.0
// GpuFrameWriter: small pieces that are only placed. A copy engine takes one command a piece, which costs more than the
// bytes of a small one; so neighbours in the queue are held back, and placed by one launch.
#include <algorithm>
#include <cstring>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "dataplane/kernels/device_code.hpp"

namespace penstock {
namespace {

// From this size on the engine reaches the bus's rate, and the processors stay free.
constexpr std::uint64_t small_piece_bytes = 64 * kib;
// Fewer are not worth a list.
constexpr std::size_t pieces_a_launch_min = 4;
constexpr std::size_t pieces_held_max = 256;

ScatterPiece bytes_of(DeviceAddress to, DeviceAddress from, std::uint64_t bytes) {
  return {.source = static_cast<std::uint64_t>(from),
          .destination = static_cast<std::uint64_t>(to),
          .elements = bytes,
          .scale = 1,
          .stored = ElementKind::bytes,
          .wanted = ElementKind::bytes,
          .zero = 0};
}

}  // namespace

Result<bool> GpuFrameWriter::hold_back(DeviceAddress to, std::span<const std::byte> source,
                                       StreamHandle stream) {
  if (source.empty() || source.size() >= small_piece_bytes) return false;
  const std::optional<DeviceAddress> seen = seen_by_kernels(source);
  if (!seen) return false;
  const DeviceAddress end = to + source.size();
  // The pieces of a launch run in any order. Those of an extent come in the order of their places.
  const bool overlaps = to < held_to_ && end > held_from_;
  if (overlaps || held_stream_ != stream || held_.size() == pieces_held_max) TRY(queue_held());
  held_from_ = held_.empty() ? to : std::min(held_from_, to);
  held_to_ = held_.empty() ? end : std::max(held_to_, end);
  held_stream_ = stream;
  held_.push_back({.to = to, .source = source, .seen = *seen});
  return true;
}

void GpuFrameWriter::flush() {
  if (held_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!loss_.ok()) return held_.clear();
  }
  if (const DriverCode entered = context_->enter(); !entered.ok()) {
    static_cast<void>(lose(entered));
    return;
  }
  static_cast<void>(queue_held());  // A failure is a loss, which reached() tells.
}

// Their fences are behind one event, whose own fence is the next.
Result<> GpuFrameWriter::queue_held() {
  if (held_.empty()) return {};
  std::size_t chunks = 0;
  const DriverCode code = place_held(chunks);
  held_.clear();
  if (!code.ok()) return lose(code);
  TRY(fence_behind(held_stream_, chunks));
  return {};
}

DriverCode GpuFrameWriter::place_held(std::size_t& chunks) {
  pieces_.clear();
  for (const HeldCopy& copy : held_) cut_pieces(bytes_of(copy.to, copy.seen, copy.source.size()), pieces_);
  const std::uint64_t list_bytes = pieces_.size() * sizeof(ScatterPiece);
  if (held_.size() < pieces_a_launch_min || list_bytes > staging_->chunk_bytes() ||
      staging_->free_chunks() == 0) {
    for (const HeldCopy& copy : held_) {
      const DriverCode code =
          context_->copy_in(copy.to, copy.source.data(), copy.source.size(), held_stream_);
      if (!code.ok()) return code;
    }
    return {};
  }
  const std::span<std::byte> list = staging_->take();
  ++chunks;
  std::memcpy(list.data(), pieces_.data(), list_bytes);
  return context_->launch_scatter(staging_->device_address(list.data()),
                                  static_cast<std::uint32_t>(pieces_.size()), held_stream_);
}

}  // namespace penstock
