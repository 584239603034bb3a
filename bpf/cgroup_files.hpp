// SPDX-License-Identifier: Apache-2.0
// CgroupFiles: the memory limits that bind this process, from cgroup v1, v2 or both at once (hybrid).
//
// Everything is read below a root directory, "/" or a test's literal tree. A cgroup is held by directory descriptor; a
// limit counts wherever it sits between the process's own cgroup and the mount. Nothing here fails: what can't be read
// is no limit, and is said once in the warnings. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/text_file.hpp"
#include "bpf/warnings.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

enum class CgroupVersion : std::uint8_t { none, v1, v2 };

// Bytes. Absent where there is no limit: never 0 and never the sentinel.
struct CgroupMemory {
  std::optional<std::uint64_t>
      max;  // Tightest memory.max or memory.limit_in_bytes: beyond it processes are killed.
  std::optional<std::uint64_t> high;      // Tightest memory.high: beyond it processes are throttled. v2 only.
  std::optional<std::uint64_t> headroom;  // Least distance to any of those limits; file cache counts as free.
};

class CgroupFiles {
 public:
  // `root` stays the caller's and must outlive this object.
  static CgroupFiles open(int root, Warnings& warnings);

  CgroupMemory read(Warnings& warnings);

  CgroupVersion version() const { return version_; }  // Of the hierarchy that limits memory.
  bool hybrid() const { return hybrid_; }             // Both v1 memory and a unified hierarchy exist.
  const std::string& path() const {
    return path_;
  }  // This process's cgroup, as the kernel names it; "" if none.
  // The text of /proc/self/cgroup that this was made from: another one means that the process was moved.
  const std::string& membership() const { return membership_; }

 private:
  // One directory between the mount and the process's own cgroup, both included.
  struct Level {
    UniqueFd directory;
    std::string path;  // For warnings.
    TextFile max, high, usage, stat;
  };

  void open_levels(int root, Warnings& warnings);
  bool open_mount(int root, const std::string& where);
  bool descend(std::string_view relative);
  void add_level(UniqueFd directory, std::string path);
  std::optional<std::uint64_t> read_limit(Level& level, TextFile& file, Warnings& warnings) const;
  std::optional<std::uint64_t> read_used(Level& level, Warnings& warnings) const;

  CgroupVersion version_ = CgroupVersion::none;
  bool hybrid_ = false;
  std::string path_;
  std::string membership_;
  std::vector<Level> levels_;  // From the mount down.
};

}  // namespace penstock
