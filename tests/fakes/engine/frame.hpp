// SPDX-License-Identifier: Apache-2.0
// Physical memory of a fake device: a memfd. What it is stands in its name, so that a process that is handed only the
// descriptor knows; that it is alive is seen by a lock, which the kernel drops with the last descriptor and mapping,
// wherever those are, also in a socket's queue.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "dataplane/base/unique_fd.hpp"

namespace penstock::fake {

struct FrameInfo {
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  int device = 0;  // Of the machine, not an ordinal.
  int handle_types = 0;
};

// An invalid descriptor when the process has none left. The content is rubbish here and there (PENSTOCK_FAKE_POISON).
UniqueFd make_frame(FrameInfo& info);
// Nothing when the descriptor is no frame of this vendor.
std::optional<FrameInfo> frame_of(int fd);
// The inodes of all frames that anybody still holds, in any process.
std::set<std::uint64_t> living_frames();

}  // namespace penstock::fake
