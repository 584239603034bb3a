// SPDX-License-Identifier: Apache-2.0
// Mappers of clients that have ended while the program's work may still read their pages. They belong to the process: any
// client ends them at its cooperative points, and the end of the process does otherwise. Any thread.
#pragma once

#include <memory>

#include "service/client/page_mapper.hpp"

namespace penstock {

void park(std::unique_ptr<PageMapper> mapper);
// Unmaps those whose work has ended. Costs one load while there are none; waits for nothing.
void end_parked();

}  // namespace penstock
