// SPDX-License-Identifier: Apache-2.0
// GpuFrameOwner: FrameOwner over a driver's memory. Holds no context; makes no driver call on the caller's thread.
//
// By itself it does not keep create's promise of zeroes, since zeroing needs a context: GpuDevice does, with a writer.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/gpu/gpu_frame_maker.hpp"

namespace penstock {

inline constexpr std::uint64_t gpu_tensor_alignment = 512;

class GpuFrameOwner final : public FrameOwner {
 public:
  // Errc::unsupported for a GPU without VMM, Errc::invalid for a frame size that is no multiple of its granularity or
  // a capacity below one frame.
  static Result<std::unique_ptr<GpuFrameOwner>> open(std::shared_ptr<GpuDriver> driver,
                                                     const GpuFrameOptions& options,
                                                     std::shared_ptr<HeadroomSource> headroom);
  // Gives back all frames that are alive.
  ~GpuFrameOwner() override;

  DeviceLimits limits() const override;
  void create(std::uint64_t tag) override { maker_.want(tag); }
  std::size_t reap(std::span<CreateDone> done) override;
  void destroy(FrameId frame) override;
  Result<ExportedFrame> share(FrameId frame, FrameAccess access) override;
  int event_fd() const override { return maker_.event_fd(); }

  // For a destruction in two steps: the frame is no caller's any more, but a writer still maps it. destroy follows.
  void condemn(FrameId frame);
  // The frame's descriptor, which lives as long as the frame. To be lent to a writer.
  int descriptor(FrameId frame) { return at(frame).memory.fd; }
  std::optional<FrameAccess> published(FrameId frame) { return at(frame).published; }
  // The GPU is not to be used any more: all creations are answered `lost`. For good.
  void quarantine() { maker_.quarantine(); }
  GpuFrameStats stats() const { return maker_.stats(); }  // Any thread.
  std::function<std::string()> call_watch() const { return maker_.call_watch(); }

 private:
  struct Entry {
    GpuFrame memory;  // fd < 0: no frame has this id now.
    std::optional<FrameAccess> published{};
    bool condemned = false;
  };

  GpuFrameOwner(std::shared_ptr<GpuDriver> driver, const GpuFrameOptions& options,
                std::shared_ptr<HeadroomSource> headroom, EventFd wake);
  Entry& at(FrameId frame);

  const std::uint64_t frame_bytes_;
  GpuFrameMaker maker_;
  std::vector<Entry> entries_;
  std::deque<FrameId> free_;             // In the order in which they became free.
  std::vector<GpuFrameAnswer> answers_;  // Scratch of reap.
};

// What `capacity = "auto"` means: what is left of a GPU's memory after 5 % and at least 512 MiB for its other users,
// in whole frames.
std::uint64_t default_gpu_capacity(std::uint64_t total_bytes, std::uint64_t frame_bytes);
// 32 MiB, or the granularity where that is larger.
std::uint64_t default_gpu_frame_bytes(const GpuDescription& gpu);

}  // namespace penstock
