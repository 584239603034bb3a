// SPDX-License-Identifier: Apache-2.0
// What the kernel says about the memory of one process. Absent is not known, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bpf/cgroup_files.hpp"
#include "bpf/swap_space.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

// Bytes.
struct ProcessMemory {
  std::optional<std::uint64_t> anonymous{};   // Present in memory.
  std::optional<std::uint64_t> page_cache{};  // Its share of mapped files: N mappers count a page 1/N each.
  std::optional<std::uint64_t> shared_memory{};  // Its share of tmpfs and memfd that it has mapped.
  std::optional<std::uint64_t> locked{};         // By mlock; what drivers pin is not in it.
  std::optional<std::uint64_t> swapped{};        // To a device, be it a disk or zram, or held by zswap.
  std::optional<std::uint64_t> compressed{};     // Of those: still in memory, compressed.
  std::optional<std::uint64_t> on_disk{};        // Of those: on a disk.
};

// Pure: from the text of smaps_rollup.
ProcessMemory memory_of_rollup(std::string_view text);
// Pure: from that of status, which everybody may read and which tells less.
ProcessMemory memory_of_status(std::string_view text);
// Pure: parts what is swapped where all of it must lie in one kind of place. `zswapped`: of the machine; nothing is not
// known.
void part_swapped(ProcessMemory& memory, const std::optional<SwapSpace>& space,
                  std::optional<std::uint64_t> zswapped);

// Of a process with more than this, in memory or swapped out, the page tables are not walked: it is known as anybody
// knows it, from its status.
inline constexpr std::uint64_t walked_bytes_max = 64ULL << 30;

// Below "/" or a literal tree. Errc::not_found when the process has ended. Walks the process's page tables: some
// milliseconds a GiB of small pages.
Result<ProcessMemory> read_process_memory(int root, const ProcessRef& process);

}  // namespace penstock
