// SPDX-License-Identifier: Apache-2.0
// What keeps the service itself from being slowed down or killed by the pressure that it answers.
#pragma once

namespace penstock {

// Asks the kernel's OOM killer to take others first, unless somebody has chosen a score already; keeps the program's
// code and small data from being reclaimed. What is not permitted is said once, at info.
void protect_from_pressure();

}  // namespace penstock
