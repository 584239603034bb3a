// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/host/host_frame_options.hpp"

#include <algorithm>

namespace penstock {

std::uint64_t default_host_capacity(HeadroomSource& headroom, std::uint64_t frame_bytes) {
  return std::max(round_down(headroom.limit_bytes() / 4, frame_bytes), frame_bytes);
}

}  // namespace penstock
