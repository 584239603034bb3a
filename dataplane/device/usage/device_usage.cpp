// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/device_usage.hpp"

#include <algorithm>

namespace penstock {

const DeviceUsage* find_usage(const std::vector<DeviceUsage>& devices, const GpuIdentity& gpu) {
  const std::array<std::uint8_t, 16> none{};
  const DeviceUsage* found = nullptr;
  for (const DeviceUsage& device : devices) {
    if (device.vendor != gpu.vendor) continue;
    if (device.uuid == gpu.uuid && gpu.uuid != none) return &device;
    if (device.pci == gpu.pci && !device.is_part) found = &device;
  }
  return found;
}

void merge_processes(std::vector<ProcessUsage>& processes) {
  std::ranges::sort(processes, {}, &ProcessUsage::pid);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < processes.size(); ++at) {
    if (kept > 0 && processes[kept - 1].pid == processes[at].pid) {
      processes[kept - 1].bytes += processes[at].bytes;
    } else {
      processes[kept++] = processes[at];
    }
  }
  processes.resize(kept);
}

}  // namespace penstock
