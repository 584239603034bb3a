// SPDX-License-Identifier: Apache-2.0
// CgroupFiles: the cgroups of one process and the memory limits that bind it, from cgroup v1, v2 or both at once
// (hybrid).
//
// Everything is read below a root directory, "/" or a test's literal tree. A cgroup is held by directory descriptor; a
// limit counts wherever it sits between the process's own cgroup and the mount. Nothing here fails: what can't be read
// is no limit, and is said once in the warnings. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/text_file.hpp"
#include "bpf/warnings.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

enum class CgroupVersion : std::uint8_t { none, v1, v2 };

// Which of a process's cgroups: the one that limits its memory, or that of the unified hierarchy. Only the latter has
// pressure files, with or without the memory controller. They differ on hybrid systems alone.
enum class CgroupHierarchy : std::uint8_t { memory, unified };

// Which process; its number is believed only as long as the descriptor says that it lives.
struct ProcessRef {
  int pid = 0;
  int pidfd = -1;
};

// Bytes. Absent where there is no limit: never 0 and never the sentinel.
struct CgroupMemory {
  std::optional<std::uint64_t>
      max;  // Tightest memory.max or memory.limit_in_bytes: beyond it processes are killed.
  std::optional<std::uint64_t> high;      // Tightest memory.high: beyond it processes are throttled. v2 only.
  std::optional<std::uint64_t> headroom;  // Least distance to any of those limits; file cache counts as free.
};

// How often those limits made tasks reclaim. Absent is not known, never 0.
struct CgroupHits {
  std::optional<std::uint64_t> max;
  std::optional<std::uint64_t> high;  // v2 only.
};

class CgroupFiles {
 public:
  // Of this process. `root` stays the caller's and must outlive this object.
  static CgroupFiles open(int root, Warnings& warnings, CgroupHierarchy hierarchy = CgroupHierarchy::memory);
  // Of another one, for example a client. Errc::not_found when it has ended. Where its cgroup isn't visible there is no
  // directory: the mount would be a cgroup of ours.
  static Result<CgroupFiles> open(int root, const ProcessRef& process, Warnings& warnings,
                                  CgroupHierarchy hierarchy = CgroupHierarchy::memory);

  CgroupMemory read(Warnings& warnings);
  // Of the limits that the last read() found the tightest, each counted where it sits; without one, of the process's
  // own cgroup.
  CgroupHits read_hits();

  CgroupVersion version() const { return version_; }  // Of the hierarchy that limits memory.
  bool hybrid() const { return hybrid_; }             // Both v1 memory and a unified hierarchy exist.
  const std::string& path() const {
    return path_;
  }  // The process's cgroup, as the kernel names it; "" if none.
  // The process's own cgroup, the deepest that is visible; -1 when none is. Belongs to this object.
  int directory() const { return levels_.empty() ? -1 : levels_.back().directory.get(); }
  // Whether that is the root of its hierarchy itself, not of a namespace or a container: its files, pressure and hits of
  // limits among them, are the machine's.
  bool is_machine() const;
  // Of that whose limit left the least room at the last read(); -1 when no limit was found. Belongs to this object.
  int tightest_directory() const { return tightest_ ? levels_[*tightest_].directory.get() : -1; }
  // Its place from the mount down.
  std::optional<std::size_t> tightest_level() const { return tightest_; }
  // The kernel's number of the process's own: CgroupSample::id. 0 when there is none.
  std::uint64_t id() const;
  // The text of /proc/self/cgroup that this was made from: another one means that the process was moved.
  const std::string& membership() const { return membership_; }

 private:
  // One directory between the mount and the process's own cgroup, both included.
  struct Level {
    UniqueFd directory;
    std::string path;  // For warnings.
    TextFile max, high, usage, stat;
    TextFile hits, hits_below;  // The latter counts descendants', too.
  };

  void choose(int root, std::string membership, CgroupHierarchy hierarchy, Warnings& warnings);
  void open_levels(int root, Warnings& warnings);
  void close_others(std::string_view why, Warnings& warnings);
  bool open_mount(int root, const std::string& where);
  bool descend(std::string_view relative);
  void add_level(UniqueFd directory, std::string path);
  std::optional<std::uint64_t> read_limit(Level& level, TextFile& file, Warnings& warnings) const;
  std::optional<std::uint64_t> read_hits_of(Level& level, std::string_view kind) const;
  std::optional<std::uint64_t> read_used(Level& level, Warnings& warnings) const;

  bool own_ = true;  // This process's.
  CgroupVersion version_ = CgroupVersion::none;
  bool hybrid_ = false;
  std::string path_;
  std::string membership_;
  std::vector<Level> levels_;                               // From the mount down.
  std::optional<std::size_t> tightest_, max_at_, high_at_;  // As of the last read().
};

}  // namespace penstock
