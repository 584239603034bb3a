// SPDX-License-Identifier: Apache-2.0
// CgroupHeadroom: HeadroomSource over the cgroup files and /proc/meminfo. Thread-safe; a call takes microseconds, or
// tens of them when it is time to read again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bpf/cgroup_files.hpp"
#include "bpf/text_file.hpp"
#include "bpf/warnings.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/headroom_source.hpp"

namespace penstock {

// What the headroom is made of, for whoever shows it.
struct HeadroomReport {
  CgroupVersion version = CgroupVersion::none;
  bool hybrid = false;
  std::string path;  // This process's cgroup.
  CgroupMemory cgroup;
  std::uint64_t available_bytes = 0;  // Of the machine: MemAvailable.
  std::uint64_t machine_bytes = 0;    // MemTotal.
};

class CgroupHeadroom final : public HeadroomSource {
 public:
  using Clock = std::function<Nanoseconds()>;

  static constexpr Nanoseconds reading_age_max = std::chrono::milliseconds(10);
  static constexpr Nanoseconds membership_age_max = std::chrono::seconds(1);

  // `root` is "/", or a literal tree. `clock` is called from any thread.
  // Reads once, so that warnings() already has what is wrong.
  static Outcome<std::unique_ptr<CgroupHeadroom>> open(const std::string& root = "/",
                                                       Clock clock = monotonic_now);

  // The least of the cgroup's headroom and MemAvailable, which leaves shared memory out as well.
  std::uint64_t headroom_bytes() override;
  // The least of memory.max, memory.high and MemTotal.
  std::uint64_t limit_bytes() override;
  std::uint64_t limit_source() override;
  void account(std::int64_t bytes) override;
  void read_anew() override;

  HeadroomReport report();
  // Those that came up since the last call; each comes once.
  std::vector<std::string> warnings();

 private:
  CgroupHeadroom(UniqueFd root, Clock clock);
  void refresh();  // Under mutex_.
  void read_machine();

  const UniqueFd root_;
  const Clock clock_;

  std::mutex mutex_;
  // Guarded by mutex_.
  Warnings warnings_;
  CgroupFiles files_;
  TextFile meminfo_, membership_;
  HeadroomReport reading_;
  Nanoseconds read_at_;
  Nanoseconds membership_at_;
  std::string suspected_;  // Another membership, which the last look found; "" if none.
  std::uint64_t moves_ = 0;
  bool outdated_ = false;         // By read_anew().
  std::int64_t taken_since_ = 0;  // Bytes accounted after the reading.
};

}  // namespace penstock
