// SPDX-License-Identifier: Apache-2.0
// How much of a file the page cache holds now.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/core/extent.hpp"

namespace penstock {

// nullopt when the kernel can't or won't tell: see PageResidency. Never blocks on the file.
std::optional<std::uint64_t> cached_bytes(int fd, const Extent& extent);

}  // namespace penstock
