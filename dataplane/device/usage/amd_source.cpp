// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/amd_source.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "dataplane/device/usage/amd_processes.hpp"
#include "dataplane/device/usage/kernel_text.hpp"

namespace penstock {
namespace {

DeviceUsage read_device(const std::string& folder, const PciAddress& pci) {
  DeviceUsage usage;
  usage.vendor = GpuVendor::hip;
  usage.pci = pci;
  const auto total = read_kernel_number(folder + "/mem_info_vram_total");
  const auto used = read_kernel_number(folder + "/mem_info_vram_used");
  if (!total || !used) {
    // A GPU that fell off the bus fails with EIO or ENODEV, one that an administrator hid with EACCES.
    const Error& refused = total ? used.error() : total.error();
    const bool gone = refused.native == EIO || refused.native == ENODEV;
    usage.health = gone ? UsageHealth::lost : UsageHealth::unreadable;
    usage.native = refused.native;
    return usage;
  }
  usage.total_bytes = *total;
  usage.used_bytes = std::min(*used, *total);
  return usage;
}

bool is_unreadable(const DeviceUsage& device) { return device.health != UsageHealth::readable; }

}  // namespace

AmdSource::AmdSource(std::string sys, std::string proc, std::string library)
    : sys_(std::move(sys)), proc_(std::move(proc)), library_(std::move(library)) {}

Result<std::vector<DeviceUsage>> AmdSource::read() {
  std::vector<DeviceUsage> devices;
  bool told = read_files(devices);
  if (devices.empty() || std::ranges::any_of(devices, is_unreadable)) told = ask_library(devices) || told;
  if (told) known_.add_missing(devices, ENODEV);  // Unbound from its driver, or removed.
  if (devices.empty()) return Error{Errc::not_found, 0, "amdgpu"};
  std::ranges::sort(devices, {}, [](const DeviceUsage& device) {
    return std::tuple(device.pci.domain, device.pci.bus, device.pci.device, device.pci.function);
  });
  read_amd_processes(sys_, proc_, devices);
  return devices;
}

bool AmdSource::read_files(std::vector<DeviceUsage>& devices) const {
  std::error_code error;
  const std::filesystem::path driver(sys_ + "/bus/pci/drivers/amdgpu");
  std::filesystem::directory_iterator at(driver, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (const auto pci = parse_pci_address(name))
      devices.push_back(read_device((driver / name).string(), *pci));
  }
  return !error;
}

bool AmdSource::ask_library(std::vector<DeviceUsage>& devices) {
  if (!smi_) {
    auto opened = AmdSmi::open(library_.c_str());
    if (!opened) return false;
    smi_.emplace(std::move(*opened));
  }
  auto told = smi_->read();
  if (!told) {
    // It is opened anew next time: the driver may have been replaced.
    smi_.reset();
    return false;
  }
  if (devices.empty()) devices = std::move(*told);
  for (DeviceUsage& device : devices) {
    if (!is_unreadable(device)) continue;
    const auto same = std::ranges::find(*told, device.pci, &DeviceUsage::pci);
    if (same != told->end() && !is_unreadable(*same)) device = *same;
  }
  return true;
}

}  // namespace penstock
