// SPDX-License-Identifier: Apache-2.0
// Mappers and copies of clients that have ended while the program's work may still read their pages. They belong to the
// process: any client ends them at its cooperative points, and the end of the process does otherwise. Any thread.
#pragma once

#include <memory>

#include "dataplane/base/clock.hpp"
#include "service/client/page_mapper.hpp"
#include "service/client/table_copy.hpp"

namespace penstock {

// How long the end of a client waits for device work, and how often it looks.
inline constexpr Nanoseconds patience_at_the_end = std::chrono::seconds(2);
inline constexpr Nanoseconds device_work_interval = std::chrono::milliseconds(1);

void park(std::shared_ptr<TableCopy> copy);
void park(std::unique_ptr<PageMapper> mapper);
// Ends those whose work has ended. Costs one load while there are none; waits for nothing but, for a copy's memory, the driver:
// not to be called with a lock that others need.
void end_parked();

}  // namespace penstock
