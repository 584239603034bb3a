// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/usage/counted_source.hpp"

#include <algorithm>

namespace penstock {

Result<std::vector<DeviceUsage>> CountedSource::read() {
  std::vector<FrameBytes> before;
  for (const Device& device : devices_) before.push_back(device.frames());
  std::vector<DeviceUsage> usages = TRY(source_->read());
  for (std::size_t at = 0; at < devices_.size(); ++at) {
    const FrameBytes after = devices_[at].frames();
    const DeviceUsage* const found = find_usage(usages, devices_[at].gpu);
    if (found == nullptr) continue;
    usages[static_cast<std::size_t>(found - usages.data())].frames =
        FrameBytes{std::min(before[at].least, after.least), std::max(before[at].most, after.most)};
  }
  return usages;
}

}  // namespace penstock
