// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/usage_report.hpp"

namespace penstock {
namespace {

void fill_in(const DeviceUsage& usage, OwnUsage own, GpuUsageStats& stats) {
  // Used bytes and our frames are of one moment only where they were counted around the reading.
  const FrameBytes frames = usage.frames.value_or(FrameBytes{own.frame_bytes, own.frame_bytes});
  own.frame_bytes = frames.most;
  const UsageFigures figures = figures_of(usage, own);
  own.frame_bytes = frames.least;
  stats.foreign_bytes_least = figures.foreign_bytes;
  stats.total_bytes = usage.total_bytes;
  stats.used_bytes = usage.used_bytes;
  stats.reserved_bytes = usage.reserved_bytes;
  stats.foreign_bytes = figures_of(usage, own).foreign_bytes;
  stats.free_bytes = figures.free_bytes;
  stats.ghost_bytes = figures.ghost_bytes;
  stats.shares_host_memory = usage.shares_host_memory;
}

}  // namespace

GpuUsageStats report_usage(const UsageSnapshot& snapshot, const GpuIdentity& gpu, const OwnUsage& own,
                           const std::optional<HostMemory>& host) {
  GpuUsageStats stats;
  stats.state = usage_state_name(snapshot.state);
  const DeviceUsage* const usage = find_usage(snapshot.devices, gpu);
  // The source's own trouble comes first: what it said of the GPU is older.
  if (snapshot.state == UsageState::current) {
    if (usage == nullptr) stats.state = "unknown";
    if (usage != nullptr && usage->health == UsageHealth::lost) stats.state = "lost";
    if (usage != nullptr && usage->health == UsageHealth::unreadable) stats.state = "unreadable";
  }
  if (host) {
    DeviceUsage on_host = on_host_memory(usage != nullptr ? *usage : DeviceUsage{}, *host);
    on_host.frames.reset();  // The machine's figures are of now.
    fill_in(on_host, own, stats);
  } else if (usage != nullptr && usage->health == UsageHealth::readable) {
    stats.age = snapshot.age;
    fill_in(*usage, own, stats);
  }
  return stats;
}

}  // namespace penstock
