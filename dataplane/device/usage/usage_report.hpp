// SPDX-License-Identifier: Apache-2.0
// One GPU's figures out of the newest reading of its vendor.
#pragma once

#include <optional>

#include "dataplane/device/gpu/gpu_identity.hpp"
#include "dataplane/device/usage/host_memory.hpp"
#include "dataplane/device/usage/usage_figures.hpp"
#include "dataplane/device/usage/usage_stats.hpp"
#include "dataplane/device/usage/usage_watch.hpp"

namespace penstock {

// Pure. `host`: given when the GPU's driver says that it shares the machine's memory (GpuDescription), which not every
// source can tell; the figures are the machine's then, though the GPU may still be reported as lost.
GpuUsageStats report_usage(const UsageSnapshot& snapshot, const GpuIdentity& gpu, const OwnUsage& own,
                           const std::optional<HostMemory>& host = std::nullopt);

}  // namespace penstock
