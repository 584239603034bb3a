// SPDX-License-Identifier: Apache-2.0
// CheckpointCounts: what is counted of a checkpoint's file while that checkpoint is open. The probes count by file, and two
// checkpoints may be two states of one file: each begins with 0 when it is opened. One that is opened again, so that its
// id is that of the same content, goes on where it ended: its counters never fall. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "bpf/probe_stats.hpp"

namespace penstock {

class CheckpointCounts {
 public:
  static constexpr std::size_t ended_max =
      4096;  // That are remembered; the one that ended first is forgotten.

  // The samples are the probes'.
  void begin(const std::string& checkpoint, const FileSample& now);
  void end(const std::string& checkpoint, const FileSample& last);
  // Makes the probes' sample one of the checkpoint. REQUIRES: it has begun.
  void apply(const std::string& checkpoint, FileSample& sample) const;

 private:
  struct Count {
    FileTraffic first_traffic, earlier_traffic;  // At the beginning; until the last end.
    FaultTraffic first_faults, earlier_faults;
    std::uint64_t ended = 0;  // In order of time; 0: it is open.
  };
  std::map<std::string, Count> counts_;
  std::size_t ended_ = 0;
  std::uint64_t ends_ = 0;
};

}  // namespace penstock
