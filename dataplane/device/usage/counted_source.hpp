// SPDX-License-Identifier: Apache-2.0
// CountedSource: a source whose readings also say how much of the used memory may be this service's own frames. Frames
// come and go while a reading is made, and all the more after it: counting them later would take their coming and going
// for somebody else's.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dataplane/device/usage/device_usage.hpp"

namespace penstock {

class CountedSource final : public UsageSource {
 public:
  struct Device {
    GpuIdentity gpu;
    // Called on the reading thread; never waits, and owns nothing whose end the caller waits for.
    std::function<FrameBytes()> frames;
  };

  CountedSource(std::unique_ptr<UsageSource> source, std::vector<Device> devices)
      : source_(std::move(source)), devices_(std::move(devices)) {}

  std::string_view name() const override { return source_->name(); }
  Result<std::vector<DeviceUsage>> read() override;

 private:
  const std::unique_ptr<UsageSource> source_;
  const std::vector<Device> devices_;
};

}  // namespace penstock
