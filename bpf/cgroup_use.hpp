// SPDX-License-Identifier: Apache-2.0
// What the memory of one cgroup is used for, and what its limits did. Absent is not known, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bpf/cgroup_files.hpp"
#include "bpf/swap_space.hpp"
#include "bpf/text_file.hpp"

namespace penstock {

// Bytes, descendants included.
struct CgroupUse {
  std::optional<std::uint64_t> anonymous;
  std::optional<std::uint64_t> page_cache;     // Without shared memory: what reclaim can drop.
  std::optional<std::uint64_t> shared_memory;  // tmpfs and memfd: reclaim needs swap for it.
  std::optional<std::uint64_t> swapped;        // To a device, be it a disk or zram, or held by zswap.
  std::optional<std::uint64_t> compressed;     // Of those: still in memory, compressed.
  std::optional<std::uint64_t> on_disk;        // Of those: on a disk.
  std::optional<std::uint64_t> zswapped;       // Of those: held by zswap. v2 only,
  std::optional<std::uint64_t> zswapped_to;    // and the bytes of memory that they take.
};

// Of one directory's files; a limit further up has its hits there (CgroupFiles::read_hits).
struct CgroupEvents {
  std::optional<std::uint64_t> limit_hits;  // Reclaim because of memory.max, or v1's failcnt.
  std::optional<std::uint64_t> high_hits;   // v2 only.
  std::optional<std::uint64_t> oom_kills;
};

// Reads the files of one cgroup; those that are not there are absent in the answer.
class CgroupUseFiles {
 public:
  // `root` is "/" or a literal tree, and stays open: the machine's swap says where swapped pages are. Without it that is
  // known of none but a cgroup that has nothing swapped.
  explicit CgroupUseFiles(CgroupVersion version, int root = -1);

  // `directory` is the same at each call: CgroupFiles::directory().
  CgroupUse read_use(int directory);
  CgroupEvents read_events(int directory);

 private:
  std::optional<std::uint64_t> read_number(TextFile& file, int directory);

  void part(CgroupUse& use) const;

  CgroupVersion version_;
  int root_;
  TextFile stat_, swap_, events_, fail_count_, kills_;
};

// Pure: from the text of memory.stat. The swapped ones of v2 have a file of their own.
CgroupUse use_of_stat(std::string_view stat, CgroupVersion version);

}  // namespace penstock
