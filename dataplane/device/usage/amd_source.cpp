// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/amd_source.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "dataplane/device/usage/amd_processes.hpp"
#include "dataplane/device/usage/kernel_text.hpp"

namespace penstock {

AmdSource::AmdSource(std::string sys, std::string proc) : sys_(std::move(sys)), proc_(std::move(proc)) {}

Result<std::vector<DeviceUsage>> AmdSource::read() {
  std::error_code error;
  std::vector<DeviceUsage> devices;
  const std::string driver = sys_ + "/bus/pci/drivers/amdgpu";
  std::filesystem::directory_iterator at(driver, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (const auto pci = parse_pci_address(name)) devices.push_back(read_device(driver + "/" + name, *pci));
  }
  if (devices.empty()) return Error{Errc::not_found, error.value(), "amdgpu"};
  std::ranges::sort(devices, {}, [](const DeviceUsage& device) {
    return std::tuple(device.pci.domain, device.pci.bus, device.pci.device, device.pci.function);
  });
  read_amd_processes(sys_, proc_, devices);
  return devices;
}

DeviceUsage AmdSource::read_device(const std::string& folder, const PciAddress& pci) const {
  DeviceUsage usage;
  usage.vendor = GpuVendor::hip;
  usage.pci = pci;
  const auto total = read_kernel_number(folder + "/mem_info_vram_total");
  const auto used = read_kernel_number(folder + "/mem_info_vram_used");
  if (!total || !used) {
    // A GPU that fell off the bus fails with EIO or ENODEV, one that an administrator hid with EACCES.
    const Error& refused = total ? used.error() : total.error();
    usage.health = UsageHealth::unreadable;
    usage.native = refused.native;
    return usage;
  }
  usage.total_bytes = *total;
  usage.used_bytes = std::min(*used, *total);
  return usage;
}

}  // namespace penstock
