// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/amd_processes.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "dataplane/device/usage/kernel_text.hpp"

namespace penstock {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The names in a folder that are numbers, in order. False when it can't be listed.
bool list_numbers(const std::string& folder, std::vector<std::uint32_t>& numbers, std::error_code& error) {
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (const auto number = parse_number<std::uint32_t>(at->path().filename().string()))
      numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return !error;
}

DeviceUsage* device_at(std::vector<DeviceUsage>& devices, const PciAddress& pci) {
  const auto at = std::ranges::find(devices, pci, &DeviceUsage::pci);
  return at == devices.end() ? nullptr : &*at;
}

// KFD numbers its GPUs by themselves: `gpu_id` of a node, whose address is put together from two properties.
std::optional<PciAddress> address_of_node(const std::string& node) {
  const auto properties = read_kernel_text(node + "/properties");
  if (!properties) return std::nullopt;
  const auto location = value_after(*properties, "location_id ");
  if (!location) return std::nullopt;
  const auto bits = parse_number<std::uint32_t>(*location);
  if (!bits) return std::nullopt;
  const auto domain = value_after(*properties, "domain ");
  return PciAddress{.domain = domain ? parse_number<std::uint32_t>(*domain).value_or(0) : 0,
                    .bus = static_cast<std::uint8_t>(*bits >> 8 & 0xff),
                    .device = static_cast<std::uint8_t>(*bits >> 3 & 0x1f),
                    .function = static_cast<std::uint8_t>(*bits & 7)};
}

void read_compute(const std::string& kfd, std::vector<DeviceUsage>& devices) {
  std::error_code error;
  std::vector<std::uint32_t> nodes, pids;
  list_numbers(kfd + "/topology/nodes", nodes, error);
  list_numbers(kfd + "/proc", pids, error);
  for (const std::uint32_t number : nodes) {
    const std::string node = kfd + "/topology/nodes/" + std::to_string(number);
    const auto id = read_kernel_number(node + "/gpu_id");
    const auto pci = address_of_node(node);
    DeviceUsage* const device = id && *id != 0 && pci ? device_at(devices, *pci) : nullptr;
    if (device == nullptr) continue;
    for (const std::uint32_t pid : pids) {
      const auto bytes =
          read_kernel_number(kfd + "/proc/" + std::to_string(pid) + "/vram_" + std::to_string(*id));
      if (bytes && *bytes > 0) device->processes.push_back({.pid = pid, .bytes = *bytes});
    }
  }
}

bool is_gpu_file(const std::string& link) {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(link, error).string();
  return !error && target.starts_with("/dev/dri/");
}

// Reads the clients of one process. False when it may not be looked into.
template <class Take>
bool read_clients(const std::string& process, const Take& take) {
  std::error_code error;
  std::vector<std::uint32_t> files;
  if (!list_numbers(process + "/fd", files, error)) return error != std::errc::permission_denied;
  for (const std::uint32_t file : files) {
    if (!is_gpu_file(fmt::format("{}/fd/{}", process, file))) continue;
    const auto text = read_kernel_text(fmt::format("{}/fdinfo/{}", process, file));
    const auto client = text ? parse_fdinfo(*text) : std::nullopt;
    if (client) take(*client);
  }
  return true;
}

// A process is in both places when it computes. They tell the same memory, so the greater counts.
void take_greater(DeviceUsage& device, const ProcessUsage& process) {
  const auto at = std::ranges::find(device.processes, process.pid, &ProcessUsage::pid);
  if (at == device.processes.end()) {
    device.processes.push_back(process);
  } else {
    at->bytes = std::max(at->bytes, process.bytes);
  }
}

}  // namespace

std::optional<DrmClient> parse_fdinfo(std::string_view text) {
  if (value_after(text, "drm-driver:") != "amdgpu") return std::nullopt;
  const auto pdev = value_after(text, "drm-pdev:"), id = value_after(text, "drm-client-id:");
  if (!pdev || !id) return std::nullopt;
  const auto pci = parse_pci_address(*pdev);
  const auto client = parse_number<std::uint64_t>(*id);
  // The older name came first and means the same.
  auto resident = value_after(text, "drm-resident-vram:");
  if (!resident) resident = value_after(text, "drm-memory-vram:");
  const auto bytes = resident ? parse_kernel_bytes(*resident) : std::nullopt;
  if (!pci || !client || !bytes) return std::nullopt;
  const auto text_of_shared = value_after(text, "drm-shared-vram:");
  const std::uint64_t shared = text_of_shared ? parse_kernel_bytes(*text_of_shared).value_or(0) : 0;
  return DrmClient{.pci = *pci, .client = *client, .bytes = *bytes - std::min(*bytes, shared)};
}

void read_amd_processes(const std::string& sys, const std::string& proc, std::vector<DeviceUsage>& devices) {
  read_compute(sys + "/class/kfd/kfd", devices);
  std::error_code error;
  std::vector<std::uint32_t> pids;
  bool complete = list_numbers(proc, pids, error);
  std::set<std::tuple<const DeviceUsage*, std::uint64_t>> seen;
  for (const std::uint32_t pid : pids) {
    std::vector<std::pair<DeviceUsage*, std::uint64_t>> bytes;
    complete &= read_clients(proc + "/" + std::to_string(pid), [&](const DrmClient& client) {
      DeviceUsage* const device = device_at(devices, client.pci);
      if (device != nullptr && seen.insert({device, client.client}).second)
        bytes.emplace_back(device, client.bytes);
    });
    for (DeviceUsage& device : devices) {
      ProcessUsage process{.pid = pid, .bytes = 0};
      for (const auto& [of, amount] : bytes) process.bytes += of == &device ? amount : 0;
      if (process.bytes > 0) take_greater(device, process);
    }
  }
  for (DeviceUsage& device : devices) {
    merge_processes(device.processes);
    device.knows_processes = complete;
  }
}

}  // namespace penstock
