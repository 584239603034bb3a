// SPDX-License-Identifier: Apache-2.0
// Parsers of what the kernel writes about cgroups and memory. Pure. Never trust a line to be there or complete: the
// files may come from a container runtime's imitation of /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/result.hpp"

namespace penstock {

// memory.max, memory.high, memory.limit_in_bytes: bytes, or nothing when there is no limit ("max", or the v1 sentinel,
// which is 2^63 - 1 rounded down to the page size). Errc::corrupt for anything else; an empty text too.
Result<std::optional<std::uint64_t>> parse_limit(std::string_view text);
// memory.current, memory.usage_in_bytes. Errc::corrupt when it is no number.
Result<std::uint64_t> parse_bytes_used(std::string_view text);
// The number after `key` at the start of a line of memory.stat ("inactive_file 4096").
std::optional<std::uint64_t> stat_value(std::string_view stat, std::string_view key);
// The bytes of a line of /proc/meminfo ("MemAvailable:  123 kB"); `name` without the colon.
std::optional<std::uint64_t> meminfo_bytes(std::string_view meminfo, std::string_view name);

// Which paths /proc/self/cgroup gives this process; absent when there is no such line.
struct CgroupPaths {
  std::optional<std::string> v1_memory;  // Of the hierarchy with the memory controller.
  std::optional<std::string> v2;         // Of the unified hierarchy.
};
CgroupPaths parse_cgroup_paths(std::string_view text);

struct CgroupMount {
  std::string root;   // Which cgroup is mounted.
  std::string where;  // Absolute.
};
struct CgroupMounts {
  std::vector<CgroupMount> v1_memory;
  std::vector<CgroupMount> v2;
};
// From /proc/self/mountinfo, in its order.
CgroupMounts parse_cgroup_mounts(std::string_view mountinfo);

}  // namespace penstock
