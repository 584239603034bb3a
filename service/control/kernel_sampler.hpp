// SPDX-License-Identifier: Apache-2.0
// KernelSampler: the probes, the cgroup files and the watch for pressure of one service, and the checkpoints that it has
// open. Asks, adds up by name, decides nothing. One thread, which may block where a file system does.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bpf/pressure_watch.hpp"
#include "bpf/probe_set.hpp"
#include "service/control/cgroup_reader.hpp"
#include "service/control/checkpoint_counts.hpp"
#include "service/control/kernel_stats.hpp"
#include "service/control/recent_hints.hpp"
#include "service/control/reclaim_sums.hpp"
#include "service/control/stall_board.hpp"

namespace penstock {

class KernelSampler {
 public:
  // Of looking where the service's cgroup is now, and at the clients'.
  static constexpr Nanoseconds outdated_period = std::chrono::seconds(1);
  static constexpr Nanoseconds reconcile_period = std::chrono::seconds(10);
  static constexpr std::size_t parts_max = 32;  // Of each file that are told apart.

  struct Options {
    std::string root = "/";  // Or a literal tree.
    std::string remedy;      // KernelStats::remedy.
    // A bound of pressure was passed, or a hint of the probes: on another thread, and it may not block.
    std::function<void()> alarm;
  };
  KernelSampler(std::unique_ptr<ProbeSet> probes, Options options);
  KernelSampler(const KernelSampler&) = delete;
  KernelSampler& operator=(const KernelSampler&) = delete;
  ~KernelSampler();

  // Follows the file behind `fd` as `checkpoint` until forget(); keeps a duplicate.
  void follow(const std::string& checkpoint, int fd, std::shared_ptr<const void> owner);
  void forget(const std::string& checkpoint);

  // `clients`: by their numbers.
  KernelStats sample(Nanoseconds now, const std::map<std::uint32_t, ProcessRef>& clients = {});
  std::vector<std::string> warnings();
  // Any thread may read it, as long as it likes.
  std::shared_ptr<const StallBoard> stalls() const { return stalls_; }

 private:
  struct Followed {
    std::optional<TrackedFileId> file;
    bool traced = false;  // So that it has counters.
    std::string why;
  };
  void open_cgroups();
  void read_clients(const std::map<std::uint32_t, ProcessRef>& clients);
  void add_reclaim(KernelStats& stats);
  void add_parts(TrackedFileId file, PageCacheFigures& figures);

  const std::unique_ptr<ProbeSet> probes_;
  const Options options_;
  std::map<std::string, Followed> followed_;
  std::vector<ExtentSample> extents_;  // Scratch.
  CheckpointCounts counts_;
  ReclaimSums reclaim_sums_;
  std::unique_ptr<CgroupReader> cgroups_;
  std::vector<ClientCgroupFigures> clients_;
  Warnings of_clients_;  // Not the reader's, which may be opened anew: each is said once.
  std::vector<std::string> warnings_;
  std::vector<PressureScope> watched_;  // By the index of the watch's edge.
  std::array<bool, pressure_scope_names.size()> by_trigger_{};
  // Both are written on the watch's thread.
  const std::shared_ptr<StallBoard> stalls_ = std::make_shared<StallBoard>();
  std::array<std::atomic<std::uint64_t>, hint_names.size()> hints_{};
  RecentHints recent_;
  std::unique_ptr<PressureWatch> watch_;  // Uses all of the above.
  Nanoseconds next_outdated_{}, next_reconcile_{};
};

}  // namespace penstock
