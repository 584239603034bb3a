// SPDX-License-Identifier: Apache-2.0
// What the memory of one cgroup is used for, and what its limits did. Absent is not known, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "bpf/cgroup_files.hpp"
#include "bpf/text_file.hpp"

namespace penstock {

// Bytes, descendants included.
struct CgroupUse {
  std::optional<std::uint64_t> anonymous;
  std::optional<std::uint64_t> page_cache;     // Without shared memory: what reclaim can drop.
  std::optional<std::uint64_t> shared_memory;  // tmpfs and memfd: reclaim needs swap for it.
  std::optional<std::uint64_t> swapped;        // To a device, be it a disk or zram.
  std::optional<std::uint64_t> compressed;     // Of the anonymous ones, in zswap. v2 only.
  std::optional<std::uint64_t> compressed_to;  // Bytes of memory that those take.
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
  explicit CgroupUseFiles(CgroupVersion version);

  // `directory` is the same at each call: CgroupFiles::directory().
  CgroupUse read_use(int directory);
  CgroupEvents read_events(int directory);

 private:
  std::optional<std::uint64_t> read_number(TextFile& file, int directory);

  CgroupVersion version_;
  TextFile stat_, swap_, events_, fail_count_, kills_;
};

// Pure: from the text of memory.stat. The swapped ones of v2 have a file of their own.
CgroupUse use_of_stat(std::string_view stat, CgroupVersion version);

}  // namespace penstock
