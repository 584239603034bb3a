// SPDX-License-Identifier: Apache-2.0
// Runs a read plan symbolically and says which of its promises it breaks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dataplane/core/page_layout.hpp"
#include "dataplane/core/read_plan.hpp"

namespace penstock::test {

// Empty when the plan of page `index` keeps every rule of read_plan.hpp, else the first broken one.
// Costs one 8-byte word for each byte of the page.
std::string broken_promise(const PageLayout& layout, std::uint32_t index,
                           std::span<const std::uint64_t> file_bytes, const ReadLimits& limits,
                           bool frame_is_addressable, const ReadPlan& plan);

}  // namespace penstock::test
