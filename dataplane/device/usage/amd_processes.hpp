// SPDX-License-Identifier: Apache-2.0
// Which process uses how much of which AMD GPU, from two places that the kernel keeps: one for compute (KFD), one for
// every open file of a GPU (fdinfo). Both need no library; fdinfo of other users needs CAP_SYS_PTRACE.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/device/usage/device_usage.hpp"

namespace penstock {

// One open file of a GPU. Several may stand for one client: duplicates, and files that a child inherited.
struct DrmClient {
  PciAddress pci;
  std::uint64_t client = 0;
  // Resident in the GPU's memory and shared with nobody: what is shared would count in each process that imports it.
  std::uint64_t bytes = 0;
};

// The text of an fdinfo file; nothing when it is no file of an amdgpu device.
std::optional<DrmClient> parse_fdinfo(std::string_view text);

// Fills in the processes of the devices. `sys` and `proc`: where the kernel's file systems are.
void read_amd_processes(const std::string& sys, const std::string& proc, std::vector<DeviceUsage>& devices);

}  // namespace penstock
