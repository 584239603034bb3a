// SPDX-License-Identifier: Apache-2.0
// AmdSource: AMD's GPUs by way of the kernel's own files. No library is asked: those read the same files.
#pragma once

#include <string>

#include "dataplane/device/usage/device_usage.hpp"

namespace penstock {

class AmdSource final : public UsageSource {
 public:
  explicit AmdSource(std::string sys = "/sys", std::string proc = "/proc");

  std::string_view name() const override { return "amdgpu"; }
  Result<std::vector<DeviceUsage>> read() override;

 private:
  DeviceUsage read_device(const std::string& folder, const PciAddress& pci) const;

  const std::string sys_, proc_;
};

}  // namespace penstock
