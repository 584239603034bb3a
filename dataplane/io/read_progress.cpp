// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/read_progress.hpp"

#include <algorithm>
#include <cerrno>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/reader_options.hpp"

namespace penstock {

Extent ReadProgress::next(ReadPath path, std::uint64_t granule) const {
  if (path == ReadPath::cached) {
    return {.offset = extent_.offset + reached_, .length = std::min(needed_ - reached_, read_bytes_limit)};
  }
  const std::uint64_t start = round_down(reached_, granule);
  return {.offset = extent_.offset + start,
          .length = std::min(extent_.length - start, round_down(read_bytes_limit, granule))};
}

ReadProgress::Verdict ReadProgress::take(std::int32_t result, const Extent& asked, ReadPath path) {
  if (result == -EINTR || result == -EAGAIN) {
    return ++retries_ > retries_max ? Verdict::failed : Verdict::retry;
  }
  if (result < 0) {
    const bool refused = path == ReadPath::direct && (result == -EINVAL || result == -EOPNOTSUPP);
    return refused ? Verdict::direct_refused : Verdict::failed;
  }
  if (result == 0) return Verdict::ended;

  CHECK(static_cast<std::uint64_t>(result) <= asked.length);
  const std::uint64_t reached = asked.offset - extent_.offset + static_cast<std::uint64_t>(result);
  if (reached <= reached_) return ++stalls_ >= stalls_max ? Verdict::stalled : Verdict::more;
  reached_ = reached;
  stalls_ = 0;
  retries_ = 0;
  return reached_ >= needed_ ? Verdict::complete : Verdict::more;
}

}  // namespace penstock
