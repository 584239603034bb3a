// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_frame_maker.hpp"

#include <utility>

namespace penstock {

GpuFrameMaker::GpuFrameMaker(std::shared_ptr<GpuDriver> driver, const GpuFrameOptions& options,
                             std::shared_ptr<HeadroomSource> headroom, EventFd wake)
    : work_(std::make_shared<GpuFrameWork>(std::move(driver), options, std::move(headroom), std::move(wake))),
      worker_([work = work_] { work->run(); }),
      watchdog_([work = work_] { work->watch(); }) {}

GpuFrameMaker::~GpuFrameMaker() {
  if (work_->stop()) {
    worker_.join();
  } else {
    worker_.detach();
  }
  watchdog_.join();
}

void GpuFrameMaker::want(std::uint64_t tag) { work_->want(tag); }
void GpuFrameMaker::take(std::size_t most, std::vector<GpuFrameAnswer>& answers) {
  work_->take(most, answers);
}
void GpuFrameMaker::condemn() { work_->condemn(); }
void GpuFrameMaker::bury(GpuFrame frame) { work_->bury(frame); }
void GpuFrameMaker::quarantine() { work_->quarantine(); }
int GpuFrameMaker::event_fd() const { return work_->event_fd(); }
std::uint64_t GpuFrameMaker::capacity_frames() const { return work_->capacity_frames(); }
GpuFrameStats GpuFrameMaker::stats() const { return work_->stats(); }

std::function<std::string()> GpuFrameMaker::call_watch() const {
  return [work = work_] { return work->call_under_way(); };
}

}  // namespace penstock
