// SPDX-License-Identifier: Apache-2.0
// HostFrameWriter: FrameWriter over the owner's own mappings. One thread copies, in order; a fence is the
// number of a copy. Calls come from the dataplane thread; the copier sees addresses only, never the table.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/host/frame_table.hpp"

namespace penstock {

class HostFrameWriter final : public FrameWriter {
 public:
  // REQUIRES: `frames` outlives the writer; queue_depth > 0 copies may wait or be under way.
  static Result<std::unique_ptr<HostFrameWriter>> open(FrameTable& frames, std::size_t queue_depth = 256);
  // Finishes the copy under way; what is queued behind it is dropped.
  ~HostFrameWriter() override;

  Result<> attach(FrameId frame) override;
  void detach(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  std::span<std::byte> address(FrameId frame) override;
  Result<FenceId> reached() override;
  int event_fd() const override { return wake_.fd(); }

 private:
  struct CopyJob {
    FenceId fence{};
    std::span<std::byte> destination;
    std::span<const std::byte> source;
    CopyConversion conversion{};
  };

  HostFrameWriter(FrameTable& frames, std::size_t queue_depth, EventFd wake);
  Result<FenceId> queue(CopyJob job);
  void run();
  static void execute(const CopyJob& job);

  FrameTable& frames_;
  const EventFd wake_;
  FenceId newest_{};  // Dataplane thread.

  std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_. A ring: the job under way stays at its head until it is done.
  std::vector<CopyJob> jobs_;
  std::size_t head_ = 0;
  std::size_t queued_ = 0;
  FenceId reached_{};
  bool woken_ = false;  // wake_ is readable.
  bool stopping_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace penstock
