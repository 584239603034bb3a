// SPDX-License-Identifier: Apache-2.0
#include "dataplane/writer/remote_frame_writer.hpp"

#include "dataplane/base/check.hpp"

namespace penstock {

RemoteFrameWriter::Attached& RemoteFrameWriter::at(FrameId frame) {
  const auto found = attached_.find(frame);
  CHECK(found != attached_.end());
  return found->second;
}

Result<> RemoteFrameWriter::attach(FrameId frame) {
  CHECK(!attached_.contains(frame));
  return map(frame, RemoteFiller::Use::fill);
}

Result<> RemoteFrameWriter::map(FrameId frame, RemoteFiller::Use use) {
  const int descriptor = TRY(frames_.writers_descriptor(frame));
  const FenceId fence = TRY(filler_->map(frame, descriptor, frame_bytes_, use));
  attached_[frame] = {
      .mapped_by = filler_->incarnation(), .map = fence, .fillable = use == RemoteFiller::Use::fill};
  return {};
}

void RemoteFrameWriter::detach(FrameId frame) {
  const Attached entry = at(frame);
  attached_.erase(frame);
  // A writer that is gone has nothing mapped.
  if (entry.mapped_by != filler_->incarnation()) return;
  (void)filler_->take_map_failure(entry.map);
  (void)filler_->unmap(frame);
}

Result<> RemoteFrameWriter::check_fillable(FrameId frame) {
  const Attached& entry = at(frame);
  if (entry.fillable && entry.mapped_by == filler_->incarnation()) return {};
  return Error{Errc::device, 0, "the frame's writer is lost"};
}

Result<FenceId> RemoteFrameWriter::copy(FrameId frame, std::uint64_t offset,
                                        std::span<const std::byte> source, const CopyConversion& conversion) {
  TRY(check_fillable(frame));
  return filler_->copy(frame, offset, source, conversion);
}

Result<FenceId> RemoteFrameWriter::sum(FrameId frame) {
  if (at(frame).mapped_by != filler_->incarnation()) TRY(map(frame, RemoteFiller::Use::read));
  return filler_->checksum(frame);
}

Result<FenceId> RemoteFrameWriter::copy_frame(FrameId to, FrameId from) {
  CHECK(to != from);
  TRY(check_fillable(to));
  if (at(from).mapped_by != filler_->incarnation()) TRY(map(from, RemoteFiller::Use::read));
  return filler_->copy_frame(to, from);
}

}  // namespace penstock
