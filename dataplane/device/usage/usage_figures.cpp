// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_figures.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::uint64_t without(std::uint64_t whole, std::uint64_t part) {
  return whole > part ? whole - part : 0;
}

std::uint64_t bytes_of(const DeviceUsage& usage, std::uint32_t pid) {
  if (pid == 0) return 0;
  const auto at = std::ranges::lower_bound(usage.processes, pid, {}, &ProcessUsage::pid);
  return at != usage.processes.end() && at->pid == pid ? at->bytes : 0;
}

std::uint64_t sum_of(const DeviceUsage& usage) {
  std::uint64_t sum = 0;
  for (const ProcessUsage& process : usage.processes) sum += process.bytes;
  return sum;
}

}  // namespace

UsageFigures figures_of(const DeviceUsage& usage, const OwnUsage& own, std::uint64_t context_bytes) {
  UsageFigures figures;
  figures.free_bytes = without(usage.total_bytes, usage.used_bytes + usage.reserved_bytes);
  figures.foreign_bytes = without(usage.used_bytes, own.frame_bytes);
  if (usage.shares_host_memory || !usage.knows_processes) return figures;
  // Drivers differ in whether an owner without a context shows its frames: they count once, as the greater of both.
  const std::uint64_t service = bytes_of(usage, own.service_pid), writer = bytes_of(usage, own.writer_pid);
  const std::uint64_t ours = std::max(service, own.frame_bytes) + writer;
  figures.foreign_bytes = without(usage.used_bytes, ours);
  for (const GrantedWork& work : own.granted) {
    figures.foreign_bytes = without(figures.foreign_bytes, std::min(bytes_of(usage, work.pid), work.bytes));
  }
  const std::uint64_t explained = sum_of(usage) - service - writer + ours + context_bytes;
  figures.ghost_bytes = without(usage.used_bytes, explained);
  return figures;
}

DeviceUsage on_host_memory(DeviceUsage usage, const HostMemory& memory) {
  usage.shares_host_memory = true;
  usage.total_bytes = memory.total_bytes;
  usage.used_bytes = without(memory.total_bytes, memory.available_bytes);
  usage.reserved_bytes = 0;
  return usage;
}

}  // namespace penstock
