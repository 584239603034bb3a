// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_figures.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::uint64_t without(std::uint64_t whole, std::uint64_t part) {
  return whole > part ? whole - part : 0;
}

std::uint64_t bytes_of(const DeviceUsage& usage, std::uint32_t pid) {
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
  for (const GrantedWork& work : own.granted) {
    figures.foreign_bytes = without(figures.foreign_bytes, std::min(bytes_of(usage, work.pid), work.bytes));
  }
  // Drivers differ in whether an owner without a context shows its frames: they count once, as the greater of both.
  std::uint64_t ours = 0;
  for (const std::uint32_t pid : own.own_pids) ours += bytes_of(usage, pid);
  const std::uint64_t explained = sum_of(usage) - ours + std::max(ours, own.frame_bytes) + context_bytes;
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
