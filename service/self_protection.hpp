// SPDX-License-Identifier: Apache-2.0
// What keeps the service itself from being slowed down or killed by the pressure that it answers.
#pragma once

#include "service/control/protection_report.hpp"

namespace penstock {

// Asks the kernel's OOM killer to take others first, unless somebody has chosen a score already; keeps the program's
// code and data, the stacks of all threads that there are and their heaps from being reclaimed. What is not permitted is
// said once, at info. On the service thread.
ProtectionReport protect_from_pressure();

}  // namespace penstock
