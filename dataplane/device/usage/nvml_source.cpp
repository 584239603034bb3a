// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/nvml_source.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

#include "dataplane/device/usage/usage_figures.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t processes_max = 4096;
constexpr std::uint32_t parts_max = 64;

// Takes the hex digits of "GPU-8932f937-d72c-..." or "MIG-...". Zeros for what is none.
std::array<std::uint8_t, 16> parse_uuid(std::string_view text) {
  std::array<std::uint8_t, 16> uuid{};
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return uuid;
  std::size_t digits = 0;
  for (const char c : text.substr(4)) {
    if (c == '-') continue;
    std::uint8_t digit = 0;
    const auto [end, error] = std::from_chars(&c, &c + 1, digit, 16);
    if (error != std::errc() || end != &c + 1 || digits == 32) return {};
    uuid[digits / 2] = static_cast<std::uint8_t>(uuid[digits / 2] << 4 | digit);
    ++digits;
  }
  return digits == 32 ? uuid : std::array<std::uint8_t, 16>{};
}

UsageHealth health_of(nvml_return_t answer) {
  if (answer == nvml_success) return UsageHealth::readable;
  const bool is_lost = answer == nvml_gpu_is_lost || answer == nvml_reset_required;
  return is_lost ? UsageHealth::lost : UsageHealth::unreadable;
}

Error error_of(nvml_return_t answer, const char* call) {
  const bool is_absent = answer == nvml_driver_not_loaded || answer == nvml_not_found;
  return Error{is_absent ? Errc::not_found : Errc::device, answer, call};
}

// One list shows a process in each part that it uses: these add up. A process that computes and draws stands in two
// lists with the same bytes: the greater counts.
void merge_lists(const std::vector<ProcessUsage>& list, std::vector<ProcessUsage>& processes) {
  for (const ProcessUsage& process : list) {
    const auto at = std::ranges::find(processes, process.pid, &ProcessUsage::pid);
    if (at == processes.end()) {
      processes.push_back(process);
    } else {
      at->bytes = std::max(at->bytes, process.bytes);
    }
  }
}

}  // namespace

NvmlSource::NvmlSource(std::string library, std::string proc)
    : library_(std::move(library)), proc_(std::move(proc)) {}

NvmlSource::~NvmlSource() { close(); }

Result<> NvmlSource::open() {
  const NvmlTable table = TRY(load_nvml(library_.c_str()));
  const nvml_return_t answer = table.init();
  if (answer != nvml_success) return error_of(answer, "nvmlInit");
  nvml_ = table;
  return {};
}

void NvmlSource::close() {
  if (nvml_) nvml_->shutdown();
  nvml_.reset();
}

Result<std::vector<DeviceUsage>> NvmlSource::read() {
  if (!nvml_) TRY(open());
  std::uint32_t count = 0;
  nvml_return_t answer = nvml_->device_count(&count);
  if (answer != nvml_success) {
    // A driver that was replaced, or a container that lost its devices, comes back with a new start only.
    close();
    return error_of(answer, "nvmlDeviceGetCount");
  }
  std::vector<DeviceUsage> devices;
  for (std::uint32_t index = 0; index < count; ++index) {
    nvml_device_t device = nullptr;
    // A GPU that is lost, or not this container's, has no handle; the others go on.
    if (nvml_->device_by_index(index, &device) != nvml_success) continue;
    devices.push_back(describe(device));
    read_memory(device, devices.back());
    read_processes(device, devices.back());
    add_parts(device, devices);
  }
  known_.add_missing(devices, nvml_gpu_is_lost);
  return devices;
}

DeviceUsage NvmlSource::describe(nvml_device_t device) const {
  DeviceUsage usage;
  usage.vendor = GpuVendor::cuda;
  char text[nvml_uuid_bytes] = {};
  if (nvml_->uuid(device, text, sizeof text) == nvml_success)
    usage.uuid = parse_uuid({text, ::strnlen(text, sizeof text)});
  nvml_pci_info pci{};
  if (nvml_->pci_info(device, &pci) == nvml_success) {
    usage.pci = PciAddress{.domain = pci.domain,
                           .bus = static_cast<std::uint8_t>(pci.bus),
                           .device = static_cast<std::uint8_t>(pci.device),
                           .function = 0};
  }
  return usage;
}

void NvmlSource::read_memory(nvml_device_t device, DeviceUsage& usage) const {
  nvml_return_t answer = nvml_not_supported;
  if (nvml_->memory_v2 != nullptr) {
    nvml_memory_v2 memory{};
    memory.version = nvml_memory_v2_version;
    answer = nvml_->memory_v2(device, &memory);
    usage.total_bytes = memory.total;
    usage.used_bytes = memory.used;
    usage.reserved_bytes = memory.reserved;
  }
  if (answer != nvml_success && health_of(answer) != UsageHealth::lost) {
    nvml_memory memory{};
    answer = nvml_->memory(device, &memory);
    usage.total_bytes = memory.total;
    usage.used_bytes = memory.used;
    usage.reserved_bytes = 0;
  }
  if (answer == nvml_not_supported && !usage.is_part) {
    // Integrated GPUs refuse the question: what they use is the machine's memory.
    if (const auto host = read_host_memory(proc_)) {
      usage = on_host_memory(std::move(usage), *host);
      return;
    }
  }
  usage.health = health_of(answer);
  usage.native = answer;
}

nvml_return_t NvmlSource::list_processes(NvmlProcessList list, nvml_device_t device,
                                         std::vector<ProcessUsage>& processes) {
  const std::size_t entry = nvml_->processes_are_v1 ? sizeof(nvml_process_v1) : sizeof(nvml_process);
  std::uint32_t count = 64;
  while (true) {
    buffer_.resize(count * entry);
    const std::uint32_t capacity = count;
    const nvml_return_t answer = list(device, &count, buffer_.data());
    if (answer == nvml_insufficient_size && capacity < processes_max) {
      // Others may start meanwhile: room for twice as many.
      count = std::clamp(2 * count, 2 * capacity, processes_max);
      continue;
    }
    if (answer != nvml_success) return answer;
    count = std::min(count, capacity);
    break;
  }
  std::vector<ProcessUsage> found;
  for (std::uint32_t at = 0; at < count; ++at) {
    nvml_process_v1 process;
    std::memcpy(&process, buffer_.data() + at * entry, sizeof process);
    if (process.used_bytes == nvml_value_not_available) return nvml_no_permission;
    found.push_back({.pid = process.pid, .bytes = process.used_bytes});
  }
  merge_processes(found);
  merge_lists(found, processes);
  return nvml_success;
}

void NvmlSource::read_processes(nvml_device_t device, DeviceUsage& usage) {
  if (usage.health != UsageHealth::readable || nvml_->processes[0] == nullptr) return;
  bool complete = true;
  for (const NvmlProcessList list : nvml_->processes) {
    if (list == nullptr) continue;
    const nvml_return_t answer = list_processes(list, device, usage.processes);
    // A GPU without graphics, or without MPS, says so.
    complete &= answer == nvml_success || answer == nvml_not_supported;
  }
  merge_processes(usage.processes);
  // Some early drivers of a series had entries of another size: such lists hold nonsense.
  const auto is_nonsense = [&usage](const ProcessUsage& process) {
    return process.pid == 0 || process.bytes > usage.total_bytes;
  };
  complete &= std::ranges::none_of(usage.processes, is_nonsense);
  usage.knows_processes = complete;
  if (!complete) usage.processes.clear();
}

void NvmlSource::add_parts(nvml_device_t whole, std::vector<DeviceUsage>& devices) {
  std::uint32_t current = 0, pending = 0, count = 0;
  if (nvml_->mig_mode == nullptr || nvml_->mig_count_max == nullptr || nvml_->mig_by_index == nullptr) return;
  if (nvml_->mig_mode(whole, &current, &pending) != nvml_success || current == 0) return;
  if (nvml_->mig_count_max(whole, &count) != nvml_success) return;
  const PciAddress pci = devices.back().pci;
  for (std::uint32_t index = 0; index < std::min(count, parts_max); ++index) {
    nvml_device_t part = nullptr;
    if (nvml_->mig_by_index(whole, index, &part) != nvml_success) continue;
    DeviceUsage usage = describe(part);
    usage.is_part = true;
    usage.pci = pci;
    read_memory(part, usage);
    read_processes(part, usage);
    devices.push_back(std::move(usage));
  }
}

}  // namespace penstock
