// SPDX-License-Identifier: Apache-2.0
// Any text of a cgroup file or of /proc: no crash, and no answer that is worse than none.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bpf/cgroup_text.hpp"
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
  return 0;
}
