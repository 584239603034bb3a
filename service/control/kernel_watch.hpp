// SPDX-License-Identifier: Apache-2.0
// KernelWatch: the thread of the probes. Whoever owns checkpoints says which are open; whoever shows figures takes the
// last snapshot. Neither waits: a file system that does not answer stops this thread alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bpf/cgroup_files.hpp"
#include "bpf/probe_set.hpp"
#include "dataplane/io/checkpoint_file.hpp"
#include "service/control/kernel_stats.hpp"
#include "service/control/stall_board.hpp"

namespace penstock {

class KernelSampler;

class KernelWatch {
 public:
  struct Options {
    std::string root = "/";  // Or a literal tree.
    std::string remedy;      // KernelStats::remedy.
    Nanoseconds period = std::chrono::milliseconds(250);
    // A snapshot takes at most this share of a core, up to a period of `period_max`.
    int idle_for_each_busy = 20;
    Nanoseconds period_max = std::chrono::seconds(5);
    // Pressure or a hint. On another thread; may neither block nor allocate.
    std::function<void()> alarm = {};
    // How a client's memory is asked for, on a thread of its own; the kernel is asked where this is empty.
    std::function<Result<ProcessMemory>(const ProcessRef&)> read_process = {};
    Nanoseconds age_max = std::chrono::seconds(30);  // An older snapshot is none: the thread hangs.
  };
  KernelWatch(std::unique_ptr<ProbeSet> probes, const Options& options);
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;
  ~KernelWatch();  // stop(), with a second's patience.

  // All of these: any thread, without waiting. What is followed is in a snapshot soon after. `path` is for people: what
  // a stop would hang on.
  void follow(const std::string& checkpoint, const std::string& path,
              std::shared_ptr<const CheckpointFile> file);
  void forget(const std::string& checkpoint);
  // Whose cgroup and memory are read too. A duplicate of the pidfd is kept.
  void follow_client(std::uint32_t client, const ProcessRef& process);
  void forget_client(std::uint32_t client);
  // Null before the first one, and when the last one is too old.
  std::shared_ptr<const KernelStats> stats() const;
  // As the thread that watches pressure saw them last, whatever snapshots do. Takes no lock.
  StallsSeen stalls(Nanoseconds now = monotonic_now()) const { return stalls_->read(now); }
  // Those that came up since the last call.
  std::vector<std::string> warnings();

  // Untracks everything and ends the thread. Empty, or what the thread hangs on; it is left alone then. Idempotent.
  std::string stop(Nanoseconds patience);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared, std::unique_ptr<KernelSampler> sampler);

  std::shared_ptr<const StallBoard> stalls_;
  std::shared_ptr<Shared> shared_;  // Outlives this object as long as the thread hangs.
};

}  // namespace penstock
