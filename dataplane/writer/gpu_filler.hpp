// SPDX-License-Identifier: Apache-2.0
// GpuFiller: a GPU's context as penstock-writer drives it. Opening it finds the GPU and tests it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "dataplane/writer/hosted_filler.hpp"

namespace penstock {

// `id`: as name_gpus gives it. Loads the driver; may hang.
Outcome<std::shared_ptr<GpuDriver>> find_gpu(GpuVendor vendor, const std::string& id);

class GpuFiller final : public HostedFiller {
 public:
  // `id`: as name_gpus gives it. Loads the driver, passes one frame through all that the service needs of it, and opens
  // the context. Blocks, and may hang: the service has a watchdog for its writers.
  static Outcome<std::unique_ptr<GpuFiller>> open(GpuVendor vendor, const std::string& id);

  Result<> use_staging(std::span<std::byte> memory, int fd) override {
    return writer_->use_staging(memory, fd);
  }
  Result<FenceId> add_source(SourceId source, std::span<std::byte> memory, int fd) override {
    return writer_->add_source(source, memory, fd);
  }
  Result<FenceId> drop_source(SourceId source) override { return writer_->drop_source(source); }
  Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use) override;
  std::optional<Error> take_map_failure(FenceId fence) override { return writer_->take_map_failure(fence); }
  Result<FenceId> unmap(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override {
    return writer_->copy(frame, offset, source, conversion);
  }
  Result<FenceId> copy_frame(FrameId to, FrameId from) override { return writer_->copy_frame(to, from); }
  void flush() override { writer_->flush(); }
  Result<FenceId> reached() override { return writer_->reached(); }
  int event_fd() const override { return writer_->event_fd(); }
  std::uint64_t incarnation() const override { return writer_->incarnation(); }

  // By the kernel, or, where the build has none for this GPU, by reading the frame out.
  Result<FenceId> checksum(FrameId frame) override;
  std::optional<Result<std::uint64_t>> take_checksum(FenceId fence) override;
  std::uint64_t free_bytes() override;

 private:
  struct OpenChecksum {
    FenceId fence{};
    std::uint64_t bytes = 0;
  };

  explicit GpuFiller(std::unique_ptr<GpuFrameWriter> writer) : writer_(std::move(writer)) {}

  Mapping read_out_;  // Of the frame whose checksum is open; made at the first one.
  const std::unique_ptr<GpuFrameWriter> writer_;  // After what it copies to.
  std::unordered_map<FrameId, std::uint64_t> frame_bytes_;
  std::optional<OpenChecksum> open_checksum_;
};

}  // namespace penstock
