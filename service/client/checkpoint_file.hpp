// SPDX-License-Identifier: Apache-2.0
// The two open descriptions of a checkpoint file that the service gets: one through the page cache, and one O_DIRECT
// where the file system has that. Kept while the checkpoint is open, for a service that comes back.
#pragma once

#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/unique_fd.hpp"

namespace penstock {

struct CheckpointFile {
  std::string name;  // For people: the last part of the path.
  UniqueFd cached;
  UniqueFd direct;  // Empty where it doesn't open.
};

Outcome<CheckpointFile> open_checkpoint_file(const char* path);
// From a descriptor of the caller, which stays the caller's. An empty name: what the kernel says.
Outcome<CheckpointFile> reopen_checkpoint_file(int fd, const char* name);

}  // namespace penstock
