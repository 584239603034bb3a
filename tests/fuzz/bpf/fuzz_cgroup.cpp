// SPDX-License-Identifier: Apache-2.0
// Any text of a cgroup file or of /proc: no crash, and no answer that is worse than none.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bpf/cgroup_text.hpp"
#include "bpf/cgroup_use.hpp"
#include "bpf/kernel_facts.hpp"
#include "bpf/pressure.hpp"
#include "bpf/swap_space.hpp"
#include "dataplane/base/check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<std::optional<std::uint64_t>> limit = parse_limit(text);
  CHECK(!limit || !*limit || **limit < std::uint64_t{1} << 62);
  const Result<std::uint64_t> used = parse_bytes_used(text);
  // What is a limit is a number.
  CHECK(!limit || !*limit || (used && *used == **limit));
  static_cast<void>(stat_value(text, "inactive_file"));
  static_cast<void>(stat_value(text, "total_active_file"));
  const std::optional<std::uint64_t> total = meminfo_bytes(text, "MemTotal");
  CHECK(!total || *total % 1024 == 0);
  const CgroupPaths paths = parse_cgroup_paths(text);
  for (const std::optional<std::string>& path : {paths.v1_memory, paths.v2}) {
    CHECK(!path || (path->starts_with('/') && path->find('\n') == std::string::npos));
  }
  const CgroupMounts mounts = parse_cgroup_mounts(text);
  for (const std::vector<CgroupMount>& kind : {mounts.v1_memory, mounts.v2}) {
    for (const CgroupMount& mount : kind) CHECK(mount.root.starts_with('/') && mount.where.starts_with('/'));
  }
  const Result<Pressure> pressure = parse_pressure(text);
  CHECK(!pressure || pressure->some || pressure->full);
  for (const std::optional<PressureLine>& line :
       {pressure ? pressure->some : std::nullopt, pressure ? pressure->full : std::nullopt}) {
    CHECK(!line || (line->percent_of_10_s <= 10'099 && line->total.count() >= 0));
  }
  for (const SwapArea& area : parse_swaps(text)) CHECK(area.bytes % 1024 == 0 && area.used_bytes % 1024 == 0);
  static_cast<void>(parse_zram_memory(text));
  static_cast<void>(parse_effective_capabilities(text));
  static_cast<void>(parse_lockdown(text));
  for (const CgroupVersion version : {CgroupVersion::v1, CgroupVersion::v2}) {
    const CgroupUse use = use_of_stat(text, version);
    CHECK(!use.page_cache ||
          *use.page_cache <=
              stat_value(text, version == CgroupVersion::v2 ? "file" : "total_cache").value_or(UINT64_MAX));
  }
  return 0;
}
