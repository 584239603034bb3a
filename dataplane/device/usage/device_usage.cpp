// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/device_usage.hpp"

#include <algorithm>
#include <iterator>

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

void KnownGpus::add_missing(std::vector<DeviceUsage>& devices, std::int32_t native) {
  for (const DeviceUsage& before : known_) {
    const auto is_same = [&before](const DeviceUsage& device) {
      const decltype(before.uuid) untold{};
      if (before.uuid != untold && device.uuid != untold) return device.uuid == before.uuid;
      return device.pci == before.pci && !device.is_part;
    };
    if (std::ranges::any_of(devices, is_same)) continue;
    DeviceUsage missing;
    missing.vendor = before.vendor;
    missing.uuid = before.uuid;
    missing.pci = before.pci;
    missing.health = UsageHealth::lost;
    missing.native = native;
    devices.push_back(missing);
  }
  known_.clear();
  std::ranges::copy_if(devices, std::back_inserter(known_),
                       [](const DeviceUsage& device) { return !device.is_part; });
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
