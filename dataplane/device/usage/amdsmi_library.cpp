// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/amdsmi_library.hpp"

#include <algorithm>
#include <utility>

#include <dlfcn.h>

namespace penstock {
namespace {

constexpr std::uint32_t handles_max = 256;

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

PciAddress unpack(amdsmi_address_t address) {
  return {.domain = static_cast<std::uint32_t>(address >> 16),
          .bus = static_cast<std::uint8_t>(address >> 8 & 0xff),
          .device = static_cast<std::uint8_t>(address >> 3 & 0x1f),
          .function = static_cast<std::uint8_t>(address & 7)};
}

// Lists are asked for twice: for their length, then for themselves.
template <class Handle, class List>
Result<std::vector<Handle>> list_all(const List& list, const char* call) {
  std::uint32_t count = 0;
  amdsmi_status_t status = list(&count, static_cast<Handle*>(nullptr));
  std::vector<Handle> handles(std::min(count, handles_max));
  count = static_cast<std::uint32_t>(handles.size());
  if (status == amdsmi_success && count > 0) status = list(&count, handles.data());
  if (status != amdsmi_success) return Error{Errc::device, status, call};
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

}  // namespace

Result<AmdSmi> AmdSmi::open(const char* name) {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{Errc::not_found, 0, "libamd_smi"};
  Table table;
  const bool complete = find(library, "amdsmi_init", table.init) &&
                        find(library, "amdsmi_shut_down", table.shut_down) &&
                        find(library, "amdsmi_get_socket_handles", table.sockets) &&
                        find(library, "amdsmi_get_processor_handles", table.gpus) &&
                        find(library, "amdsmi_get_gpu_device_bdf", table.address) &&
                        find(library, "amdsmi_get_gpu_memory_total", table.total) &&
                        find(library, "amdsmi_get_gpu_memory_usage", table.used);
  if (!complete) return Error{Errc::unsupported, 0, "libamd_smi"};
  const amdsmi_status_t status = table.init(amdsmi_init_gpus);
  if (status != amdsmi_success) return Error{Errc::device, status, "amdsmi_init"};
  return AmdSmi(table);
}

AmdSmi::AmdSmi(AmdSmi&& other) noexcept
    : table_(other.table_), is_open_(std::exchange(other.is_open_, false)) {}

AmdSmi::~AmdSmi() {
  if (is_open_) table_.shut_down();
}

Result<std::vector<DeviceUsage>> AmdSmi::read() {
  const auto sockets = TRY(list_all<amdsmi_socket_t>(table_.sockets, "amdsmi_get_socket_handles"));
  std::vector<DeviceUsage> devices;
  for (const amdsmi_socket_t socket : sockets) {
    const auto list = [this, socket](uint32_t* count, amdsmi_gpu_t* gpus) {
      return table_.gpus(socket, count, gpus);
    };
    const auto gpus = list_all<amdsmi_gpu_t>(list, "amdsmi_get_processor_handles");
    if (!gpus) continue;
    for (const amdsmi_gpu_t gpu : *gpus) devices.push_back(read_gpu(gpu));
  }
  if (devices.empty()) return Error{Errc::not_found, 0, "libamd_smi"};
  return devices;
}

DeviceUsage AmdSmi::read_gpu(amdsmi_gpu_t gpu) const {
  DeviceUsage usage;
  usage.vendor = GpuVendor::hip;
  amdsmi_address_t address = 0;
  usage.native = table_.address(gpu, &address);
  usage.pci = unpack(address);
  if (usage.native == amdsmi_success)
    usage.native = table_.total(gpu, amdsmi_memory_vram, &usage.total_bytes);
  if (usage.native == amdsmi_success) usage.native = table_.used(gpu, amdsmi_memory_vram, &usage.used_bytes);
  if (usage.native != amdsmi_success) usage.health = UsageHealth::unreadable;
  return usage;
}

}  // namespace penstock
