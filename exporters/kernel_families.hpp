// SPDX-License-Identifier: Apache-2.0
// The families of what the kernel says: page cache of checkpoints, reclaim, pressure, the probes themselves.
#pragma once

#include "exporters/family_set.hpp"
#include "service/control/kernel_stats.hpp"

namespace penstock {

void add_kernel(FamilySet& set, const KernelStats& stats);

}  // namespace penstock
