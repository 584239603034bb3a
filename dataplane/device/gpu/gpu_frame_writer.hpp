// SPDX-License-Identifier: Apache-2.0
// GpuFrameWriter: FrameFiller over a driver's context, in the process that holds it. An address range and a mapping per
// frame; a few streams, one frame always on the same one; an event per fence. A second thread waits for the events.
//
// Any answer of the driver that is not foreseen loses the writer (decision 12); so does a dead context. Only a checksum is
// nothing that anybody needs: it fails alone, unless the context is over. Once lost, the writer touches the GPU only to
// clean up. None follows: once reached() has told the loss, everything is Errc::closed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/gpu/frame_filler.hpp"
#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/gpu/staging.hpp"
#include "dataplane/kernels/kernel_arguments.hpp"

namespace penstock {

struct GpuWriterOptions {
  std::size_t queue_depth = 256;
  std::size_t streams = 2;
  // Page-locked memory for what is converted on its way, and for the lists of what the device is to convert.
  std::uint64_t staging_chunk_bytes = 1ull << 20;
  std::size_t staging_chunks = 16;
  std::size_t sums = 8;  // Under way at once.
};

class GpuFrameWriter final : public FrameFiller {
 public:
  // Opens the context. Errc::exhausted, unsupported, denied or device with the driver's code.
  static Result<std::unique_ptr<GpuFrameWriter>> open(std::shared_ptr<GpuDriver> driver,
                                                      const GpuWriterOptions& options);
  // Waits for what is queued, unmaps all frames, and ends the context.
  ~GpuFrameWriter() override;

  // Page-locks the memory until the writer's end, so that copies from it need no bounce through the driver's own. Where
  // the driver refuses that, copies are slower and nothing else.
  Result<> use_staging(std::span<std::byte> memory, int fd) override;
  // As use_staging, for as long as it is a source.
  Result<FenceId> add_source(SourceId source, std::span<std::byte> memory, int fd) override;
  Result<FenceId> drop_source(SourceId source) override;
  Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use) override;
  std::optional<Error> take_map_failure(FenceId fence) override;
  Result<FenceId> unmap(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  void flush() override;
  Result<FenceId> reached() override;
  int event_fd() const override { return wake_.fd(); }
  std::uint64_t incarnation() const override { return 1; }

  // With the kernel, on a stream of its own, whose priority is the driver's default: the lowest of CUDA's. Errc::unsupported
  // where the build has none for this GPU.
  Result<FenceId> checksum(FrameId frame) override;
  std::optional<Result<std::uint64_t>> take_checksum(FenceId fence) override;
  // A sum that could not be taken: its fence, and then its error. Loses the writer if the context is over.
  Result<FenceId> fail_sum(DriverCode code);
  bool has_kernels() const { return has_kernels_; }

  // Queues a copy of the whole frame to host memory, which stays valid until the fence. Nothing is lost if the driver has
  // no memory for it: Errc::exhausted.
  Result<FenceId> read_out(FrameId frame, std::span<std::byte> to);
  Result<DeviceMemoryFigures> memory_figures();
  // Why the writer is lost; success while it is not.
  DriverCode loss() const;

 private:
  struct MappedFrame {
    DeviceAddress at{};
    std::uint64_t bytes = 0;
    Use use = Use::fill;
    FenceId last{};       // Of the newest work on it.
    bool failed = false;  // It could not be mapped; there is nothing at `at`.
  };
  struct Pending {
    FenceId fence{};
    bool has_event = false;
    EventHandle event{};
    std::size_t chunks = 0;  // Of staging, free when the fence is reached.
  };

  GpuFrameWriter(std::shared_ptr<GpuDriver> driver, std::unique_ptr<DriverContext> context,
                 const GpuWriterOptions& options, EventFd wake);
  struct OpenSum {
    FrameId frame{};
    FenceId fence{};
    std::uint64_t bytes = 0;
    std::byte* at = nullptr;  // The sum, and behind it the list of tiles.
  };

  Result<> prepare();
  // For anything but a copy that may be held back: what was held back goes first.
  Result<> ready_to_queue();
  Result<> can_queue();
  MappedFrame& at(FrameId frame);
  Result<> check_mapped(FrameId frame);
  StreamHandle stream_of(FrameId frame) const { return streams_[raw(frame) % streams_.size()]; }
  DriverCode map_frame(int fd, MappedFrame& frame, bool& undone);
  DriverCode unmap_frame(const MappedFrame& frame);
  Result<> copy_converted(DeviceAddress to, std::span<const std::byte> source,
                          const CopyConversion& conversion, StreamHandle stream, std::size_t& chunks);
  Result<> copy_scattered(DeviceAddress to, std::span<const std::byte> source,
                          const CopyConversion& conversion, StreamHandle stream, std::size_t& chunks);
  // A copy that is not queued yet (gpu_frame_placing.cpp).
  struct HeldCopy {
    DeviceAddress to{};
    std::span<const std::byte> source;
    DeviceAddress seen{};  // The source, as kernels see it.
  };
  // True: it is held back, and its fence is the next. What can't be placed together with it is queued.
  Result<bool> hold_back(DeviceAddress to, std::span<const std::byte> source, StreamHandle stream);
  Result<> queue_held();
  DriverCode place_held(std::size_t& chunks);
  DriverCode prepare_sum(std::uint64_t bytes);
  DriverCode launch_sum(const MappedFrame& mapped, std::byte* at, EventHandle event);
  DriverCode end_sum_of(FrameId frame);
  // Memory that could be page-locked, and where kernels see it; nowhere, if the driver does not say.
  struct Registered {
    std::span<std::byte> memory;
    std::optional<DeviceAddress> on_device;
  };
  Result<Registered> register_memory(std::span<std::byte> memory);
  void unregister(const Registered& registered);
  // Where kernels see the source, if they may be used.
  std::optional<DeviceAddress> seen_by_kernels(std::span<const std::byte> source) const;
  // What was queued on the stream so far is behind the fence.
  Result<FenceId> fence_behind(StreamHandle stream, std::size_t chunks = 0);
  DriverCode take_event(EventHandle& event);
  void give_back(EventHandle event);
  FenceId fence_at(EventHandle event, std::size_t chunks);
  FenceId fence_now(std::size_t chunks = 0);
  Error lose(DriverCode code);
  Error lost() const;
  DriverCode wait_for(StreamHandle stream, FenceId fence);
  void wait_for_events();
  void clean_up();

  const std::shared_ptr<GpuDriver> driver_;
  const std::unique_ptr<DriverContext> context_;
  const GpuWriterOptions options_;
  const EventFd wake_;
  // The caller's thread.
  std::unordered_map<std::uint32_t, MappedFrame> frames_;
  std::vector<StreamHandle> streams_;
  std::map<const std::byte*, Registered> registered_;  // By their beginnings.
  std::unordered_map<SourceId, const std::byte*> sources_;
  bool has_kernels_ = false;
  std::vector<ScatterPiece> pieces_;  // Scratch.
  std::vector<HeldCopy> held_;        // All for held_stream_, to places from held_from_ on, before held_to_.
  StreamHandle held_stream_{};
  DeviceAddress held_from_{}, held_to_{};
  std::unordered_map<FenceId, Error> map_failures_;
  bool loss_told_ = false;
  std::vector<EventHandle> events_made_;  // All of them, for the end.
  FenceId newest_{};
  std::unique_ptr<Staging> staging_;
  // Made at the first checksum: its stream, and a chunk for each that may be under way.
  std::optional<StreamHandle> sum_stream_;
  std::unique_ptr<Staging> sum_memory_;
  std::vector<std::byte*> idle_sums_;  // Chunks.
  std::vector<ChecksumTile> tiles_;    // Scratch.
  std::vector<OpenSum> open_sums_;
  std::unordered_map<FenceId, Error> failed_sums_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_.
  std::deque<Pending> pending_;  // At most queue_depth.
  std::vector<EventHandle> idle_events_;
  FenceId reached_{};
  std::size_t chunks_freed_ = 0;
  DriverCode loss_;
  bool woken_ = false;
  bool stopping_ = false;

  std::thread waiter_;  // Last: it uses all of the above.
};

}  // namespace penstock
