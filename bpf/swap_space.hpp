// SPDX-License-Identifier: Apache-2.0
// Where this machine swaps to: bytes on zram are still in memory, those on a disk are not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

struct SwapArea {
  std::string name;  // "/dev/zram0"
  bool zram = false;
  std::uint64_t bytes = 0;
  std::uint64_t used_bytes = 0;
};

// Pure: /proc/swaps. Lines that are none are left out.
std::vector<SwapArea> parse_swaps(std::string_view text);
// Pure: the memory that a zram device takes, from its mm_stat.
std::optional<std::uint64_t> parse_zram_memory(std::string_view mm_stat);

struct SwapSpace {
  std::uint64_t disk_bytes = 0, disk_used_bytes = 0;
  std::uint64_t zram_bytes = 0, zram_used_bytes = 0;
  std::optional<std::uint64_t>
      zram_memory_bytes;  // What the used ones take, compressed. Absent without a zram area.
};

// Below "/" or a literal tree. Nothing when /proc/swaps can't be read.
std::optional<SwapSpace> read_swap_space(int root);
// Of zswap as a whole; nothing where the kernel does not say.
std::optional<std::uint64_t> read_zswapped(int root);

struct SwappedParts {
  std::optional<std::uint64_t> compressed;  // In memory: on zram, or held by zswap.
  std::optional<std::uint64_t> on_disk;
};

// Pure: where `swapped` bytes are, if zswap holds `zswapped` of them. Known while nothing is swapped, and where one kind
// of device is in use: nobody says how much of a process or of a cgroup is on which.
SwappedParts part_swapped(std::uint64_t swapped, const std::optional<SwapSpace>& space,
                          std::optional<std::uint64_t> zswapped);

}  // namespace penstock
