// SPDX-License-Identifier: Apache-2.0
// AmdSource: AMD's GPUs by way of the kernel's own files, and of libamd_smi for the memory that those do not tell.
#pragma once

#include <optional>
#include <string>

#include "dataplane/device/usage/amdsmi_library.hpp"
#include "dataplane/device/usage/device_usage.hpp"

namespace penstock {

class AmdSource final : public UsageSource {
 public:
  explicit AmdSource(std::string sys = "/sys", std::string proc = "/proc",
                     std::string library = "libamd_smi.so");

  std::string_view name() const override { return "amdgpu"; }
  // Devices by address; then GPUs that were there before and are not any more, as lost.
  Result<std::vector<DeviceUsage>> read() override;

 private:
  // Whether the driver's devices could be listed.
  bool read_files(std::vector<DeviceUsage>& devices) const;
  // Replaces entries that are unreadable, or all when there is none. False: it tells nothing.
  bool ask_library(std::vector<DeviceUsage>& devices);

  const std::string sys_, proc_, library_;
  KnownGpus known_;
  std::optional<AmdSmi> smi_;  // Once it was needed, and opened.
};

}  // namespace penstock
