// SPDX-License-Identifier: Apache-2.0
// TrackedFile: one file's counters in the shared arrays, and what they were when it began to be tracked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf/extent_table.hpp"
#include "bpf/file_user.hpp"
#include "bpf/probe_abi.h"
#include "bpf/probe_stats.hpp"
#include "bpf/residency_query.hpp"
#include "dataplane/base/mapping.hpp"

namespace penstock {

// The shared arrays; nullptr without programs.
struct SharedCounters {
  pst_file* files = nullptr;
  pst_extent* extents = nullptr;
};

// A reading of pst_file that no event disturbed, or the last of several tries.
struct FileCounters {
  pst_file values{};
  bool steady = false;

  std::uint64_t removed() const;
  // Added less removed.
  std::int64_t change() const { return static_cast<std::int64_t>(values.added - removed()); }
};
FileCounters read_counters(const pst_file& file);

class TrackedFile {
 public:
  // Asks the kernel for each sample.
  TrackedFile(OwnedFd file, ResidencyQuery query, std::uint64_t bytes);

  // From now on by the counters at `slot` and `run`, which are zeroed. The key is not in the programs' map yet.
  void count_at(const SharedCounters& shared, std::uint32_t slot, const ExtentRun& run,
                const pst_resolved& seen, Mapping mapping);
  bool traced() const { return shared_.files != nullptr; }
  std::uint64_t key() const { return seen_.key; }
  const pst_resolved& seen() const { return seen_; }
  const ExtentRun& run() const { return run_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t mapped_at() const { return reinterpret_cast<std::uint64_t>(mapping_.data()); }

  // How many pages the kernel says are resident now; nothing when it won't say.
  using KernelPages = std::function<std::optional<std::uint64_t>()>;

  // What the file and each extent held before the counting, by asking. Tries again where pages came or went meanwhile; where
  // they do so in each try, the total is a guess until reconcile(), and the extents are absent until settle_extents().
  void begin(const KernelPages& kernel_pages);
  // True when the counts were set right by the kernel's: when the second call in a row finds the same difference. Once may be
  // an event in between. What the extents held is not known then.
  bool reconcile(std::uint64_t kernel_pages);
  // Asks again for what the extents hold, where that is not known. Changes nothing where pages come or go meanwhile.
  void settle_extents(const KernelPages& kernel_pages);

  FileSample sample(ProbeLevel level) const;
  std::size_t extents() const { return run_.count; }
  std::uint64_t extent_bytes() const;
  ExtentSample extent(std::size_t index) const;

  std::uint32_t users = 0;  // How many share it.

 private:
  const pst_file& counters() const { return shared_.files[slot_]; }
  bool is_still(const FileCounters& before) const;
  bool ask_extents();
  void forget_extents();

  OwnedFd file_;
  ResidencyQuery query_;
  std::uint64_t bytes_;
  SharedCounters shared_;
  std::uint32_t slot_ = 0;
  ExtentRun run_;
  pst_resolved seen_{};
  Mapping mapping_;  // Never touched: only so that the kernel can be asked what lies behind it.
  std::int64_t first_pages_ = 0;
  std::vector<std::optional<std::uint64_t>> first_extent_pages_;  // Less what was counted before, mod 2^64.
  bool extents_settled_ = false;           // All that the kernel tells of them is known.
  std::optional<std::int64_t> suspected_;  // The difference that the last reconcile() found.
};

}  // namespace penstock
