// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame.hpp"

#include <fcntl.h>

#include <cerrno>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/base/populate.hpp"

namespace penstock {

Result<HostFrame> HostFrame::make(std::uint64_t bytes, HostPages wanted) {
  CHECK(bytes > 0 && bytes % small_page_bytes == 0);
  const bool fits_huge_pages = bytes % huge_page_bytes == 0;
  UniqueFd file = TRY(create_memfd("penstock-frame", bytes));
  Mapping mapping = TRY(Mapping::shared(file.get(), bytes, Access::read_write, 0,
                                        fits_huge_pages ? huge_page_bytes : small_page_bytes));
  // Weights in a core dump help nobody, and they are another user's files.
  TRY(exclude_from_dumps(mapping));
  // A child of this process keeps no frame alive.
  TRY(mapping.keep_from_children(0, mapping.size()));
  HostFrame frame(std::move(file), std::move(mapping));
  TRY(frame.populate(fits_huge_pages ? wanted : HostPages::small));
  return frame;
}

Result<> HostFrame::populate(HostPages wanted) {
  if (wanted == HostPages::huge) {
    const Result<> collapsed = populate_huge(mapping_);
    if (collapsed) {
      pages_ = HostPages::huge;
      return {};
    }
    // EBUSY: the memory cgroup refused to be charged with a huge page. That refusal kills nobody, but small
    // pages in its place would: they are charged by page faults, and a fault past the limit ends in the
    // out-of-memory killer.
    if (collapsed.error().native == EBUSY) return collapsed;
  }
  return populate_small(mapping_);
}

Result<> HostFrame::seal(FrameAccess access) const {
  const int forbidden = access == FrameAccess::shared_read_only ? F_SEAL_FUTURE_WRITE : 0;
  return add_seals(file_.get(), forbidden | F_SEAL_SEAL);
}

}  // namespace penstock
