// SPDX-License-Identifier: Apache-2.0
// What the kernel says about memory, as one value: taken on the thread of the probes, read by whoever shows it. What
// nobody measures is absent, never 0.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/cgroup_use.hpp"
#include "bpf/pressure.hpp"
#include "bpf/probe_stats.hpp"
#include "bpf/process_memory.hpp"

namespace penstock {

struct PageCacheFigures {
  std::string checkpoint;            // Its id.
  std::optional<FileSample> sample;  // Nothing while the file is not followed.
  std::string why;                   // One line, when it is not known as well as the machine allows.
  // Where in the file: consecutive parts of part_bytes, the last one less. Of traced files only; a few, so that each may
  // be many extents.
  std::vector<ExtentSample> parts{};
  std::uint64_t part_bytes = 0;

  std::optional<std::uint64_t> resident_bytes() const {
    return sample ? sample->resident_bytes : std::nullopt;
  }
};

// Whose tasks reclaimed: those of this service's memory cgroup, or all others, those of removed cgroups included.
enum class CgroupOwner : std::uint8_t { service, others };
inline constexpr std::array<std::string_view, 2> cgroup_owner_names = {"service", "others"};

struct ReclaimFigures {
  std::array<ReclaimSample, reclaim_kinds> reclaim{};
  std::uint64_t oom_kills = 0;
};

// Whose tasks waited for memory: all, those in this service's cgroup, those in the ancestor whose limit is the tightest.
enum class PressureScope : std::uint8_t { machine, service, limit };
inline constexpr std::array<std::string_view, 3> pressure_scope_names = {"machine", "service", "limit"};

struct PressureFigures {
  std::optional<Pressure> pressure;
  std::optional<std::uint64_t> events;  // How often a bound was passed; nothing when nobody watches for it.
  bool by_trigger = false;              // The kernel tells of it; otherwise it is looked for now and then.
  bool looked_for =
      false;  // Whether there should be a pressure: not of v1, nor of a root, whose file is the machine's.
};

// One cgroup: limits that bind it, wherever they sit, what its memory is used for, what its limits did.
struct CgroupFigures {
  CgroupMemory limits;
  CgroupUse use;
  CgroupEvents events;  // Hits of those limits, kills in this cgroup.
};

// The cgroup of a client, where it is not the service's own.
struct ClientCgroupFigures {
  std::uint32_t client = 0;
  std::uint64_t cgroup_id = 0;  // As CgroupSample::id.
  CgroupFigures cgroup;
  std::optional<ReclaimFigures> reclaim;  // Nothing where it isn't probed, or nothing happened.
  std::optional<Pressure> pressure;
};

struct ClientMemoryFigures {
  std::uint32_t client = 0;
  ProcessMemory memory;
};

inline constexpr std::array<std::string_view, 3> hint_names = {"reclaimed", "stall",
                                                               "oom_kill"};  // By Hint::Kind.

struct KernelStats {
  Nanoseconds at{};  // CLOCK_MONOTONIC, and what a clock on the wall showed then.
  std::chrono::system_clock::time_point wall_at{};
  ProbeLevel level = ProbeLevel::none;
  std::string remedy;  // What would let the page cache be traced; empty when it is.
  std::vector<ProbeReport> probes;
  std::vector<PageCacheFigures> checkpoints;  // By id.
  MachineSample machine;
  std::array<ReclaimFigures, cgroup_owner_names.size()> reclaim{};      // By CgroupOwner.
  std::array<PressureFigures, pressure_scope_names.size()> pressure{};  // By PressureScope.
  std::optional<CgroupFigures> cgroup;  // The service's own; nothing when it is in none that can be read.
  std::vector<ClientCgroupFigures> clients;
  std::vector<ClientMemoryFigures> processes;  // Of clients that can be read.
  std::array<std::uint64_t, hint_names.size()> hints{};
  std::vector<Hint> recent;     // Stalls and kills, the oldest first; a few.
  std::uint64_t cgroup_id = 0;  // The service's own, as CgroupSample::id.

  const PageCacheFigures* find(std::string_view checkpoint) const {
    const auto found = std::ranges::find(checkpoints, checkpoint, &PageCacheFigures::checkpoint);
    return found == checkpoints.end() ? nullptr : &*found;
  }
  const ProcessMemory* memory_of(std::uint32_t client) const {
    const auto found = std::ranges::find(processes, client, &ClientMemoryFigures::client);
    return found == processes.end() ? nullptr : &found->memory;
  }
  bool any_attached() const {
    return std::ranges::any_of(probes, [](const ProbeReport& probe) { return probe.attached; });
  }
  bool attached(std::string_view probe) const {
    return std::ranges::any_of(
        probes, [&](const ProbeReport& report) { return report.attached && report.name == probe; });
  }
};

}  // namespace penstock
