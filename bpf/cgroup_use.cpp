// SPDX-License-Identifier: Apache-2.0
#include "bpf/cgroup_use.hpp"

#include <algorithm>

#include "bpf/cgroup_text.hpp"

namespace penstock {
namespace {

// Both controllers count shared memory among the cached files.
std::optional<std::uint64_t> less(std::optional<std::uint64_t> files, std::optional<std::uint64_t> shared) {
  if (!files) return std::nullopt;
  return *files - std::min(*files, shared.value_or(0));
}

}  // namespace

CgroupUse use_of_stat(std::string_view stat, CgroupVersion version) {
  CgroupUse use;
  if (version == CgroupVersion::v1) {
    // Where the hierarchy is not used the plain lines are all there is.
    const auto total = [&](std::string_view key, std::string_view plain) {
      const std::optional<std::uint64_t> all = stat_value(stat, key);
      return all ? all : stat_value(stat, plain);
    };
    use.anonymous = total("total_rss", "rss");
    use.shared_memory = total("total_shmem", "shmem");
    use.page_cache = less(total("total_cache", "cache"), use.shared_memory);
    use.swapped = total("total_swap", "swap");
    return use;
  }
  use.anonymous = stat_value(stat, "anon");
  use.shared_memory = stat_value(stat, "shmem");
  use.page_cache = less(stat_value(stat, "file"), use.shared_memory);
  use.zswapped = stat_value(stat, "zswapped");
  use.zswapped_to = stat_value(stat, "zswap");
  return use;
}

CgroupUseFiles::CgroupUseFiles(CgroupVersion version, int root)
    : version_(version),
      root_(root),
      stat_("memory.stat"),
      swap_("memory.swap.current"),
      events_("memory.events"),
      fail_count_("memory.failcnt"),
      kills_("memory.oom_control") {}

CgroupUse CgroupUseFiles::read_use(int directory) {
  const Result<std::string_view> stat = stat_.read(directory);
  if (!stat) return {};
  CgroupUse use = use_of_stat(*stat, version_);
  if (version_ == CgroupVersion::v2) use.swapped = read_number(swap_, directory);
  part(use);
  return use;
}

void CgroupUseFiles::part(CgroupUse& use) const {
  if (!use.swapped) return;
  std::optional<SwapSpace> space;
  std::optional<std::uint64_t> zswapped = use.zswapped;
  // Nothing to look up while nothing is swapped: the usual case.
  if (*use.swapped != 0 && root_ >= 0) {
    space = read_swap_space(root_);
    // How much of the machine's is this cgroup's is not known, unless that is nothing.
    if (!zswapped && read_zswapped(root_) == 0u) zswapped = 0;
  }
  const SwappedParts parts = part_swapped(*use.swapped, space, zswapped);
  use.compressed = parts.compressed;
  use.on_disk = parts.on_disk;
}

CgroupEvents CgroupUseFiles::read_events(int directory) {
  CgroupEvents events;
  if (version_ == CgroupVersion::v2) {
    const Result<std::string_view> text = events_.read(directory);
    if (!text) return events;
    events.limit_hits = stat_value(*text, "max");
    events.high_hits = stat_value(*text, "high");
    events.oom_kills = stat_value(*text, "oom_kill");
    return events;
  }
  events.limit_hits = read_number(fail_count_, directory);
  const Result<std::string_view> kills = kills_.read(directory);
  if (kills) events.oom_kills = stat_value(*kills, "oom_kill");
  return events;
}

std::optional<std::uint64_t> CgroupUseFiles::read_number(TextFile& file, int directory) {
  const Result<std::string_view> text = file.read(directory);
  const Result<std::uint64_t> number = text ? parse_bytes_used(*text) : text.error();
  return number ? std::optional(*number) : std::nullopt;
}

}  // namespace penstock
