// SPDX-License-Identifier: Apache-2.0
// Programs: the loaded BPF programs and their maps. The only face of libbpf; a build without a BPF compiler has a twin
// that always answers "not built".
//
// Nothing is pinned: the kernel frees all of it when the process ends, however it ends. Not thread-safe, except that the
// hints may be consumed on another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bpf/kernel_facts.hpp"
#include "bpf/probe_abi.h"
#include "bpf/probe_stats.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

struct ProgramOptions {
  Nanoseconds long_reclaim = std::chrono::milliseconds(50);  // A reclaim of at least this is a hint.
  std::uint32_t hint_ring_bytes = PST_HINT_RING_BYTES;       // A power of two, of whole pages.
  bool time_faults = false;    // Counts and times major faults of tracked files, half a microsecond each.
  std::uint32_t left_out = 0;  // Bit i: the probe i is not attached, as on a kernel that refuses it.
};

// The probes, in the order of their reports.
enum class Probe : std::uint8_t {
  page_cache,
  memcg_reclaim,
  direct_reclaim,
  soft_limit_reclaim,
  node_reclaim,
  kswapd,
  oom_kill,
  cgroup_removal,
  major_faults,
};
inline constexpr std::size_t probes = 9;

class Programs {
 public:
  virtual ~Programs() = default;

  // Loads and attaches what this kernel allows, each probe by the best of its alternatives. Null when not a single one
  // is attached; `reports` says why, and has an entry for each probe either way. Takes about 50 ms.
  static std::unique_ptr<Programs> load(const KernelFacts& facts, const ProgramOptions& options,
                                        std::vector<ProbeReport>& reports);

  bool attached(Probe probe) const { return (attached_ >> static_cast<unsigned>(probe) & 1) != 0; }
  // How often the kernel skipped a run of this probe's programs.
  virtual std::uint64_t missed(Probe probe) const = 0;

  // Shared with the programs: PST_FILES_MAX, PST_EXTENTS_MAX and one.
  virtual pst_file* files() const = 0;
  virtual pst_extent* extents() const = 0;
  virtual const pst_machine& machine() const = 0;

  // From now on the programs count for this struct address_space.
  virtual Result<> add_key(std::uint64_t address_space, const pst_file_key& key) = 0;
  virtual void remove_key(std::uint64_t address_space) = 0;

  // What lies behind the mapping of this process that begins at `address`, and all mappings of files that have a key.
  virtual Result<std::vector<pst_resolved>> resolve(std::uint64_t address) = 0;

  virtual std::vector<std::pair<std::uint64_t, pst_cgroup>> cgroups() const = 0;

  virtual int hint_fd() const = 0;
  virtual void consume_hints(const std::function<void(const pst_hint&)>& take) = 0;

 protected:
  std::uint32_t attached_ = 0;  // Bit i: the probe i.
};

}  // namespace penstock
