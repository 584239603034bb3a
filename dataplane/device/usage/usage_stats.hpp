// SPDX-License-Identifier: Apache-2.0
// What is known of one GPU's memory, and how old that is. A snapshot, for admission and for exporters.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

struct GpuUsageStats {
  // "current", "failing", "stalled", "starting" and "absent" are the source's; "lost", "unreadable" and "unknown" (the
  // source does not list it) the GPU's. A static string.
  std::string_view state = "starting";
  // Since the reading that the figures come from. Without figures, 0.
  std::chrono::nanoseconds age{0};
  // All of them or none; the ghost only where processes are known.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> reserved_bytes;
  std::optional<std::uint64_t>
      foreign_bytes;  // At most: by the fewest own frames that the reading may have met.
  std::optional<std::uint64_t> foreign_bytes_least;
  std::optional<std::uint64_t> free_bytes;  // What could still be allocated, by anybody.
  std::optional<std::uint64_t> ghost_bytes;
  bool shares_host_memory = false;  // Total, used and free are the machine's.
};

}  // namespace penstock
