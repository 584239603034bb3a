// SPDX-License-Identifier: Apache-2.0
// FileUser: one call of track(): a descriptor, what its own file system says of it, and whose counters it reads. Several
// overlays may show one file: what happens to one of them is nothing to the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "bpf/probe_stats.hpp"
#include "dataplane/base/clock.hpp"

namespace penstock {

// A descriptor that somebody else closes, but not before this is gone.
struct OwnedFd {
  int fd;
  std::shared_ptr<const void> owner;
};

// What this machine knows of a file: a server that is gone is not asked.
struct KnownStatus {
  std::uint32_t mode = 0, links = 0;
  std::uint64_t bytes = 0;
  Nanoseconds changed_at{};  // Its attributes, by the file system's clock.
};
std::optional<KnownStatus> known_status(int fd);

class FileUser {
 public:
  // `slot`: of the counters.
  FileUser(OwnedFd file, const KnownStatus& status, std::uint32_t slot);

  std::uint32_t slot() const { return slot_; }
  std::uint64_t bytes() const { return bytes_; }
  // Whoever opens a file of an overlay's lower layer for writing, or changes its attributes, makes a copy in the upper one.
  // The descriptor reads that from then on, while mappings of it still show the one below: nobody says which of the two it
  // is, so that no counters are its own from then on.
  bool copied_up() const { return copied_up_; }
  bool unlinked() const { return unlinked_; }

  // Asks for the status. True when the file was copied up since the last call.
  bool look();

 private:
  OwnedFd file_;
  std::uint32_t slot_;
  std::uint64_t bytes_;
  Nanoseconds changed_at_;
  bool copied_up_ = false, unlinked_ = false;
};

}  // namespace penstock
