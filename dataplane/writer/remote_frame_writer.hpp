// SPDX-License-Identifier: Apache-2.0
// RemoteFrameWriter: FrameWriter whose copies happen in penstock-writer. Knows which frame which writer has mapped.
// Dataplane thread.
//
// A frame is mapped to be filled by the writer that lives when it is attached. After that writer's end it can still be the
// source of copy_frame, for which the next one maps it to read; a copy into it is Errc::device (W2).
#pragma once

#include <memory>
#include <unordered_map>

#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/frame_descriptors.hpp"
#include "dataplane/writer/remote_filler.hpp"

namespace penstock {

class RemoteFrameWriter final : public FrameWriter {
 public:
  // REQUIRES: `frames` outlives the writer.
  RemoteFrameWriter(std::unique_ptr<RemoteFiller> filler, FrameDescriptors& frames, std::uint64_t frame_bytes)
      : filler_(std::move(filler)), frames_(frames), frame_bytes_(frame_bytes) {}

  Result<> attach(FrameId frame) override;
  void detach(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  std::optional<Error> take_copy_failure(FenceId fence) override { return filler_->take_copy_failure(fence); }
  Result<FenceId> sum(FrameId frame) override;
  std::optional<Result<std::uint64_t>> take_sum(FenceId fence) override {
    return filler_->take_checksum(fence);
  }
  std::span<std::byte> address(FrameId) override { return {}; }
  Result<> use_staging(std::span<std::byte> memory, int fd) override {
    return filler_->use_staging(memory, fd);
  }
  Result<> add_source(SourceId source, std::span<std::byte> memory, int fd) override {
    TRY(filler_->add_source(source, memory, fd));
    return {};
  }
  FenceId drop_source(SourceId source) override { return filler_->drop_source(source).value_or(FenceId{}); }
  void flush() override { filler_->flush(); }
  Result<FenceId> reached() override { return filler_->reached(); }
  int event_fd() const override { return filler_->event_fd(); }

  bool attached(FrameId frame) const { return attached_.contains(frame); }
  RemoteFiller& filler() { return *filler_; }

 private:
  struct Attached {
    std::uint64_t mapped_by = 0;  // Incarnation.
    FenceId map{};
    bool fillable = false;
  };

  Attached& at(FrameId frame);
  Result<> map(FrameId frame, RemoteFiller::Use use);
  Result<> check_fillable(FrameId frame);

  const std::unique_ptr<RemoteFiller> filler_;
  FrameDescriptors& frames_;
  const std::uint64_t frame_bytes_;
  std::unordered_map<FrameId, Attached> attached_;
};

}  // namespace penstock
