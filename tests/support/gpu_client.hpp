// SPDX-License-Identifier: Apache-2.0
// GpuClient: what a process that was granted a frame does with its descriptor. In the test's own process, on the GPU's
// primary context.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

class GpuClient {
 public:
  GpuClient(std::shared_ptr<GpuDriver> gpu, std::uint64_t frame_bytes);
  ~GpuClient();

  // Maps the frame read-only, copies it out and unmaps it. Empty when that was refused.
  std::vector<std::byte> read(int frame_fd);
  // Maps it read-write and fills it. False when that was refused.
  bool fill(int frame_fd, std::byte value);

 private:
  bool with_mapping(int frame_fd, MappedRights rights, const std::function<DriverCode(DeviceAddress)>& use);

  const std::shared_ptr<GpuDriver> gpu_;
  const std::uint64_t frame_bytes_;
  std::unique_ptr<DriverContext> context_;
  StreamHandle stream_{};
};

}  // namespace penstock
