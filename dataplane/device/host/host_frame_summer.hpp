// SPDX-License-Identifier: Apache-2.0
// HostFrameSummer: FrameSummer of host memory, on a thread of the lowest priority.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/frame_summer.hpp"

namespace penstock {

class HostFrameSummer final : public FrameSummer {
 public:
  HostFrameSummer();
  // Waits for the sum that is under way.
  ~HostFrameSummer() override;

  bool wants_descriptors() const override { return true; }
  Result<> start(FrameId frame, int frame_fd, std::uint64_t bytes) override;
  std::optional<Result<std::uint64_t>> take() override;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_.
  UniqueFd wanted_;  // Set: to be summed up.
  std::uint64_t bytes_ = 0;
  bool busy_ = false;  // From start to take.
  std::optional<Result<std::uint64_t>> answer_;
  bool stopping_ = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace penstock
