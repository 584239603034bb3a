// SPDX-License-Identifier: Apache-2.0
// A file on some file system, tracked by the kernel's probes, and the comparison of what they count with mincore.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/kernel_probes.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "tests/integration/probes/foreign_reclaim.hpp"
#include "tests/support/loop_image.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock::test {

inline constexpr std::uint64_t probed_page_bytes = 4096;
inline const ProbeOptions with_fault_times{.use_bpf = true, .programs = {.time_faults = true}};

// A folder on the file system that `name` says: ext4, xfs, btrfs (with a subvolume), tmpfs, overlay.
class Disk {
 public:
  // Null, with the missing requirement, when there can't be one. Mounts in a namespace of this process alone, from the
  // first call on: whatever happens to it, nothing stays mounted.
  static std::unique_ptr<Disk> make(const std::string& name, std::string& missing);
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  ~Disk();

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& scratch() const { return scratch_.path(); }
  // Where a file is written so that it shows in folder(): the lower layer of an overlay.
  const std::filesystem::path& origin() const { return origin_; }

 private:
  Disk() = default;

  TemporaryFolder scratch_;
  std::unique_ptr<LoopImage> image_;
  std::filesystem::path mounted_;  // Besides the image; empty if nothing is.
  std::filesystem::path folder_, origin_;
};

// A folder for one test on a file system with a page cache that can be traced: where temporary files are, or on a disk
// of its own where that is tmpfs.
class DiskFolder {
 public:
  DiskFolder();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  // Any user may look for names in it.
  void open_to_others() const;
  // Empty, or what a disk of its own would have needed.
  const std::string& missing() const { return missing_; }

 private:
  TemporaryFolder temporary_;
  std::unique_ptr<Disk> disk_;
  std::filesystem::path path_;
  std::string missing_;
};

// Empty, or what the machine lacks for tracing the page cache.
std::string tracing_lacks();

// Reads all of it in small pieces, as a process under a limit must.
bool read_in_pieces(const std::filesystem::path& path);

// What one step did, in pages.
struct Step {
  std::int64_t resident_change = 0;  // By mincore.
  std::int64_t added = 0;
  std::int64_t removed = 0;   // For whatever cause,
  std::int64_t by_cause = 0;  // for the expected one,
  std::int64_t foreign = 0;   // and by what other programs and the kernel's threads do at any time.
  bool dropped = false;       // Somebody dropped all page caches meanwhile.
  std::string unexplained;    // Empty, or what is foreign and more than the kernel counts for it.
};

// What the probes and mincore say of a file while nothing of it comes or goes: others' reclaim may take a page at any time.
struct FileCounts {
  ForeignReclaim others;  // From before the rest.
  FileSample sample;
  std::vector<ExtentSample> extents;
  std::uint64_t mincore_pages = 0;

  std::uint64_t mincore_bytes() const { return mincore_pages * probed_page_bytes; }
};

class ProbedFile {
 public:
  ProbedFile(KernelProbes& probes, const std::filesystem::path& path);
  ~ProbedFile();
  ProbedFile(const ProbedFile&) = delete;
  ProbedFile& operator=(const ProbedFile&) = delete;

  const Tracking& tracking() const { return tracking_; }
  TrackedFileId id() const { return tracking_.file; }
  int fd() const { return fd_->get(); }
  FileSample sample() { return probes_.sample(tracking_.file); }
  std::uint64_t mincore_pages() const;
  FileCounts counts();

  // From the counts of the last call to these.
  Step step(const FileCounts& now, RemovalCause expected);

 private:
  KernelProbes& probes_;
  std::filesystem::path path_;
  std::shared_ptr<UniqueFd> fd_;
  Tracking tracking_;
  ForeignReclaim foreign_;  // From before last_.
  FileTraffic last_;
  std::uint64_t last_pages_ = 0;
};

// What a cause other than `other` must have done. Nobody can promise that of a page which others use at that moment.
enum class Removes { something, what_it_can };

// Empty when the sums agree: pages by the probe equal those by mincore, in all, over the extents, and for this step,
// and everything that left did so for the expected cause, if any is, or was taken by others who can have taken it.
std::string disagreement(ProbedFile& file, RemovalCause expected, Removes removes = Removes::something);

}  // namespace penstock::test
