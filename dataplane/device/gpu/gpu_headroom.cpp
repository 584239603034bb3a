// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_headroom.hpp"

#include <algorithm>

namespace penstock {

void GpuHeadroom::read(const DeviceMemoryFigures& figures) {
  const std::lock_guard lock(mutex_);
  free_bytes_ = figures.free_bytes;
}

std::uint64_t GpuHeadroom::headroom_bytes() {
  const std::lock_guard lock(mutex_);
  return free_bytes_ > kept_free_bytes_ ? free_bytes_ - kept_free_bytes_ : 0;
}

void GpuHeadroom::account(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes >= 0) {
    free_bytes_ -= std::min(free_bytes_, static_cast<std::uint64_t>(bytes));
  } else {
    free_bytes_ = std::min(free_bytes_ + static_cast<std::uint64_t>(-bytes), total_bytes_);
  }
}

}  // namespace penstock
