// SPDX-License-Identifier: Apache-2.0
// ProbeSet: the seam behind which the kernel is watched. Measures, decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bpf/probe_stats.hpp"
#include "dataplane/base/result.hpp"

namespace penstock {

enum class TrackedFileId : std::uint32_t {};

// Which file the kernel sees behind a descriptor. Differs from stat(2) on overlayfs and in subvolumes of btrfs.
struct KernelFile {
  std::uint32_t device = 0;  // s_dev: major << 20 | minor.
  std::uint64_t inode = 0;
  std::uint32_t generation = 0;
  friend bool operator==(const KernelFile&, const KernelFile&) = default;
};

struct Tracking {
  TrackedFileId file{};
  ProbeLevel level = ProbeLevel::none;
  std::optional<KernelFile> seen;  // Traced files only.
  std::string why;                 // One line, when the level is not the best: what is missing.
  std::uint32_t counters = 0;      // Whose they are: of one file they are the same, and Hint::file says them.
};

// All members belong to one thread, except where said.
class ProbeSet {
 public:
  virtual ~ProbeSet() = default;

  // One entry for each probe there is, attached or not.
  virtual std::vector<ProbeReport> report() = 0;
  // The best that a file on a common disk file system gets.
  virtual ProbeLevel level() const = 0;

  // Follows the file that `fd` is open on, from now on; keeps `owner` of the descriptor, since closing another one would
  // ask the file system, and a one-page mapping that is never touched. The same file, by whatever path, has the
  // same counters; the id is this call's own, as of two overlays over one file one may be copied up. Asks the file system:
  // may block where that does. Errc::exhausted when there is no room.
  virtual Result<Tracking> track(int fd, std::shared_ptr<const void> owner) = 0;
  virtual void untrack(TrackedFileId file) = 0;

  // Traced files: reads shared memory, no system call. Others ask the kernel each time.
  virtual FileSample sample(TrackedFileId file) = 0;
  // The file's extents in order. Returns how many were written; an extent has extent_bytes(file), the last one less.
  virtual std::size_t sample_extents(TrackedFileId file, std::span<ExtentSample> extents) = 0;
  virtual std::uint64_t extent_bytes(TrackedFileId file) const = 0;
  virtual std::size_t extents(TrackedFileId file) const = 0;

  // Empty when neither reclaim nor kills are probed. Cgroups without an event are not in it.
  virtual std::vector<CgroupSample> sample_cgroups() = 0;
  virtual MachineSample sample_machine() = 0;

  // Compares the counts with the kernel's own. Every ten seconds or so; takes a millisecond for thousands of mappings.
  virtual void reconcile() = 0;
  // Samples say from now on which files have no name any more, or were copied up on their overlay. A system call a file,
  // which asks no server.
  virtual void look_for_unlinked() = 0;

  // Readable when there are hints; -1 when there never will be. The fd and consume_hints belong to one thread, which may
  // be another than the rest's.
  virtual int hint_fd() const = 0;
  virtual void consume_hints(const std::function<void(const Hint&)>& take) = 0;
};

}  // namespace penstock
