// SPDX-License-Identifier: Apache-2.0
// ProcessWatch: a thread that asks the kernel what memory clients' processes have, one after the other. That walks their
// page tables and waits for their locks: milliseconds a GiB, or as long as a client hangs. Nobody waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bpf/cgroup_files.hpp"
#include "bpf/process_memory.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/control/kernel_stats.hpp"

namespace penstock {

class ProcessWatch {
 public:
  struct Options {
    // On the watch's thread; may block.
    std::function<Result<ProcessMemory>(const ProcessRef&)> read;
    Nanoseconds period = std::chrono::seconds(5);  // Of each client, so that many don't come at once.
    Nanoseconds age_max =
        std::chrono::seconds(30);  // Older figures are none: the thread hangs, or has too many.
    int idle_for_each_busy = 20;   // However many clients there are: at most this share of a core.
    std::function<Nanoseconds()> clock = monotonic_now;  // Of the rhythm.
  };
  explicit ProcessWatch(Options options);
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();  // stop(), with a tenth of a second's patience.

  // All of these: any thread, without waiting.
  void follow(std::uint32_t client, int pid, std::shared_ptr<UniqueFd> pidfd);
  void forget(std::uint32_t client);
  // Of those that could be read, by their numbers.
  std::vector<ClientMemoryFigures> latest() const;

  // Whether the thread has ended; it is left alone otherwise. Idempotent.
  bool stop(Nanoseconds patience);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;  // Outlives this object as long as the thread hangs.
};

}  // namespace penstock
