// SPDX-License-Identifier: Apache-2.0
#include "service/policy/amount.hpp"

#include <fmt/format.h>

#include "dataplane/base/units.hpp"

namespace penstock {

std::string amount(std::uint64_t bytes) {
  if (bytes % mib == 0) return fmt::format("{} MiB", bytes / mib);
  if (bytes % kib == 0) return fmt::format("{} KiB", bytes / kib);
  return fmt::format("{} bytes", bytes);
}

}  // namespace penstock
