// SPDX-License-Identifier: Apache-2.0
// GpuFrameMaker: the thread that makes and releases a GPU's frames, and the watchdog that gives the GPU up when a call
// of its driver does not return.
//
// want, condemn, bury and take: the dataplane thread; they hold the mutex for a few moves and call no driver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/device/gpu/gpu_frame_work.hpp"

namespace penstock {

class GpuFrameMaker {
 public:
  // `headroom` outlives the process's last call of the driver: it is asked from the maker's thread, which may be left
  // behind; shared for that reason.
  GpuFrameMaker(std::shared_ptr<GpuDriver> driver, const GpuFrameOptions& options,
                std::shared_ptr<HeadroomSource> headroom, EventFd wake);
  // Gives back what is dying. Waits for the driver, at most until the GPU is given up.
  ~GpuFrameMaker();
  GpuFrameMaker(const GpuFrameMaker&) = delete;
  GpuFrameMaker& operator=(const GpuFrameMaker&) = delete;

  void want(std::uint64_t tag);
  // Moves up to `most` answers to the end of `answers`.
  void take(std::size_t most, std::vector<GpuFrameAnswer>& answers);
  // The frame is nobody's any more, but something of this service still maps it; bury follows.
  void condemn();
  void bury(GpuFrame frame);
  // The GPU is not to be used any more; what waits is answered `lost`. For good.
  void quarantine();

  int event_fd() const;
  std::uint64_t capacity_frames() const;
  GpuFrameStats stats() const;  // Any thread.
  // GpuFrameWork::call_under_way, for any thread, and for longer than the maker lives.
  std::function<std::string()> call_watch() const;

 private:
  const std::shared_ptr<GpuFrameWork> work_;
  std::thread worker_;
  std::thread watchdog_;
};

}  // namespace penstock
