// SPDX-License-Identifier: Apache-2.0
// What the probes say, as values. An absent optional means "not measured", never "nothing happened".
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/clock.hpp"

namespace penstock {

// How well the page cache of a file is known, from worst to best. Exported as a number.
enum class ProbeLevel : std::uint8_t {
  none,       // Not at all; cgroup files and PSI remain.
  mincore,    // Resident pages, by asking: milliseconds a GiB. No cause, nothing between two questions.
  cachestat,  // The same, in microseconds a GiB where folios are large.
  traced,     // Every page that comes and goes, and why.
  traced_and_faults  // And major faults with their time.
};

enum class RemovalCause : std::uint8_t {
  kswapd,
  direct_reclaim,
  memcg_limit,    // memory.max and memory.high; memory.reclaim and force_empty too, which take the same way.
  other_reclaim,  // Node reclaim, v1's soft limit, DAMON, MADV_PAGEOUT.
  fadvise,
  drop_caches,
  direct_write,
  truncate,  // Punched holes too.
  other,
};
inline constexpr std::size_t removal_causes = 9;

enum class ReclaimKind : std::uint8_t { direct, memcg, soft_limit, node };
inline constexpr std::size_t reclaim_kinds = 4;

// Snake case, for labels.
const char* probe_level_name(ProbeLevel level);
const char* removal_cause_name(RemovalCause cause);
const char* reclaim_kind_name(ReclaimKind kind);

// One probe: what became of it.
struct ProbeReport {
  std::string name = {};
  bool attached = false;
  std::string how = {};  // The alternative that serves.
  // When not attached: one line with the cause. When a worse alternative serves: why not the better.
  std::string why = {};
  std::uint64_t missed = 0;  // Runs that the kernel skipped because the program was running already there.
};

// Since the file is tracked. Counters only grow.
struct FileTraffic {
  std::uint64_t added_bytes = 0;
  std::array<std::uint64_t, removal_causes> removed_bytes{};
  std::uint64_t refaulted_bytes = 0;  // Of the added ones: back after a reclaim. At most what reclaim took.
  // Causes that can't be told apart, as a probe is missing that tells them. Their bytes count in the sum alone.
  std::bitset<removal_causes> untold = {};

  // Nothing when that can't be told.
  std::optional<std::uint64_t> removed_by(RemovalCause cause) const {
    const auto index = static_cast<std::size_t>(cause);
    return untold[index] ? std::nullopt : std::optional(removed_bytes[index]);
  }
  std::uint64_t removed_bytes_in_all() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : removed_bytes) sum += bytes;
    return sum;
  }
};

struct FaultTraffic {
  std::uint64_t major_faults = 0;
  std::uint64_t stall_ns = 0;
};

struct FileSample {
  ProbeLevel level = ProbeLevel::none;
  std::optional<std::uint64_t> resident_bytes;  // Whole folios: they may reach beyond the file's end.
  std::optional<FileTraffic> traffic;
  std::optional<FaultTraffic> faults;
  bool unlinked = false;  // It has no name. If it had one, what we hold keeps its space: stop tracking it.
  // A file of an overlay that was changed, and so copied to the upper layer: of which of the two pages are wanted nobody
  // says. All is absent.
  bool copied_up = false;
};

// Since the file is tracked.
struct ExtentTraffic {
  std::uint64_t added_bytes = 0;
  std::uint64_t removed_bytes = 0;  // For whatever cause.
};

struct ExtentSample {
  std::optional<std::uint64_t> resident_bytes = {};
  std::optional<ExtentTraffic> traffic = {};  // Traced files only,
  std::uint64_t reclaimed_bytes = 0;          // and so is this: taken by reclaim and not yet back.
};

struct ReclaimSample {
  std::uint64_t episodes = 0;
  std::uint64_t ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t longest_ns = 0;
};

// Of the tasks of one memory cgroup, since the probes run.
struct CgroupSample {
  std::uint64_t id = 0;  // The inode number of its directory; 0: all that are gone or had no room.
  std::array<ReclaimSample, reclaim_kinds> reclaim{};
  std::uint64_t oom_kills = 0;
};

// Bucket i counts what took less than 2^i microseconds, the last one all the rest.
using LatencyHistogram = std::array<std::uint64_t, 24>;

// Absent where the probe behind it is not attached.
struct MachineSample {
  std::optional<std::uint64_t> kswapd_wakes;
  std::optional<std::uint64_t> oom_kills;
  std::array<std::optional<LatencyHistogram>, reclaim_kinds> reclaim_durations;
  std::optional<LatencyHistogram> fault_durations;
  std::uint64_t fault_ns = 0;  // All of fault_durations together.
  std::uint64_t hints_lost = 0;
  std::uint64_t cgroups_lost = 0;  // Episodes booked under id 0, as there was no room for another cgroup.
  std::uint64_t tasks_lost = 0;    // Tasks whose reclaims and faults could not be followed.
  std::uint64_t corrections = 0;   // How often a count did not agree with the kernel's own and was set right.
};

// Rare edges, soon after they happen. Some may be lost, and are counted then: totals never depend on them.
struct Hint {
  enum class Kind : std::uint8_t {
    reclaimed,  // The first pages of a tracked file after a quiet time.
    stall,      // One reclaim that took long.
    oom_kill,
  };
  Kind kind = Kind::stall;
  Nanoseconds at{};
  std::uint64_t cgroup = 0;
  std::uint64_t bytes = 0;
  std::uint32_t file = 0;                     // reclaimed: Tracking::counters of the file.
  RemovalCause cause = RemovalCause::other;   // reclaimed
  ReclaimKind reclaim = ReclaimKind::direct;  // stall
  Nanoseconds duration{};                     // stall
  std::uint32_t process = 0;                  // Who reclaimed, or the victim. A number that may be reused.
  std::array<char, 16> command{};             // Ends in 0.
};

}  // namespace penstock
