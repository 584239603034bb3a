// SPDX-License-Identifier: Apache-2.0
// A checkpoint file as a client handed it over: one or two descriptors of the same regular file, and its
// identity.
//
// Identity is (st_dev, st_ino, size, mtime, ctime): hard links, symlinks and bind mounts are one file; an
// inode that is used again, or content written in place with mtime put back, is another (G05).
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/io/page_residency.hpp"

namespace penstock {

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  friend auto operator<=>(const FileIdentity&, const FileIdentity&) = default;
  std::string id() const;  // 12 hex digits, stable: what users see as the checkpoint's id.
};

struct DirectLimits {
  bool usable = false;               // STATX_DIOALIGN said so and a direct descriptor is there.
  std::uint32_t offset_granule = 0;  // 512 or 4096 in practice
  std::uint32_t memory_granule = 0;
  const char* reason = "";  // Why not, when !usable.
};

class CheckpointFile {
 public:
  // `direct` may be empty. Refuses what is no regular file, is not open for reading, or when the two
  // descriptors are not the same file (FailureKind::not_a_file, not_permitted, invalid_argument). Metadata
  // calls only; may block on FUSE: call it from an opener thread.
  static Outcome<std::shared_ptr<CheckpointFile>> adopt(UniqueFd cached, UniqueFd direct);
  // Opens both descriptions itself; for the command line and tests.
  static Outcome<std::shared_ptr<CheckpointFile>> open(const std::string& path);

  int cached_fd() const { return cached_.get(); }
  int direct_fd() const { return direct_.get(); }  // -1 when direct().usable is false
  const FileIdentity& identity() const { return identity_; }
  const DirectLimits& direct() const { return direct_limits_; }
  // Names that it had when it was given. 0: none (memfd), or its file system does not count them.
  std::uint64_t links() const { return links_; }
  // What the page cache holds of it.
  const PageResidency& residency() const { return residency_; }
  // Compares the open descriptor with identity(): FailureKind::changed_while_read names what changed (R05).
  Outcome<void> verify_unchanged() const;

 private:
  CheckpointFile() = default;

  UniqueFd cached_;
  UniqueFd direct_;
  FileIdentity identity_;
  DirectLimits direct_limits_;
  PageResidency residency_;
  std::uint64_t links_ = 0;  // Its change explains a change of ctime (R05: rename over the path, unlink).
};

}  // namespace penstock
