// SPDX-License-Identifier: Apache-2.0
// GpuHeadroom: how many bytes a GPU has left for us, from the writer's newest reading of its free memory and from what
// the owner made or gave back since. Any thread.
#pragma once

#include <cstdint>
#include <mutex>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/headroom_source.hpp"

namespace penstock {

class GpuHeadroom final : public HeadroomSource {
 public:
  // `kept_free_bytes` stay for other users of the GPU. Until the first reading nothing is known of them.
  GpuHeadroom(std::uint64_t total_bytes, std::uint64_t kept_free_bytes)
      : total_bytes_(total_bytes), kept_free_bytes_(kept_free_bytes), free_bytes_(total_bytes) {}

  // What the driver said; newer than everything accounted so far.
  void read(const DeviceMemoryFigures& figures);

  std::uint64_t headroom_bytes() override;
  std::uint64_t limit_bytes() override { return total_bytes_; }
  void account(std::int64_t bytes) override;

 private:
  const std::uint64_t total_bytes_, kept_free_bytes_;
  std::mutex mutex_;
  std::uint64_t free_bytes_;  // Guarded by mutex_.
};

}  // namespace penstock
