// SPDX-License-Identifier: Apache-2.0
// The families of devices: their pagers, readers and ledgers.
#pragma once

#include <span>

#include "exporters/collector.hpp"
#include "exporters/family_set.hpp"

namespace penstock {

void add_devices(FamilySet& set, std::span<const DeviceSource> devices);

}  // namespace penstock
