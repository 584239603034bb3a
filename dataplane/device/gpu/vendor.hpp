// SPDX-License-Identifier: Apache-2.0
// A vendor's driver on this machine: in which of five states it is, and its GPUs. No state is fatal.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

enum class VendorState : std::uint8_t {
  absent,          // No library of this vendor.
  without_device,  // The library is there (or only the toolkit's stub), a GPU is not.
  broken,  // Too old, at odds with the kernel's driver, incomplete but for VMM, or it does not answer.
  usable_without_vmm,  // GPUs, but none whose memory can be shared page by page (decision 10).
  usable,
};
std::string_view vendor_state_name(VendorState state);

struct VendorReport {
  GpuVendor vendor = GpuVendor::cuda;
  VendorState state = VendorState::absent;
  std::string version;  // "13.0", "7.1.25424"; empty when it could not be asked.
  std::string library;  // As it was found: "libcuda.so.1".
  std::string detail;   // One line: why it is in this state.
  std::string remedy;   // May be empty.
};

struct OpenedVendor {
  VendorReport report;
  std::vector<std::shared_ptr<GpuDriver>> gpus;  // Also those without VMM; each names its own description.
};

enum class DriverLoading : std::uint8_t {
  load,           // The service and its tools: from the system.
  already_there,  // A library inside somebody's program: only the copy that this process already uses.
};

// Load the library, initialise it, and look at its GPUs. These block, and may hang.
OpenedVendor open_cuda(DriverLoading loading);
OpenedVendor open_hip(DriverLoading loading);
OpenedVendor open_vendor(GpuVendor vendor, DriverLoading loading);

// The same on a thread of its own. A driver that does not answer in time is `broken`, and its thread is left behind.
OpenedVendor open_vendor_within(GpuVendor vendor, std::chrono::milliseconds limit);

// For those who implement open_*. What a refusal of the driver before there is any GPU to speak of means:
VendorReport report_of(VendorReport so_far, DriverCode refused);
// Gives all GPUs their ids (name_gpus).
void name_descriptions(std::vector<GpuDescription>& gpus);
// Decides between usable, usable_without_vmm and without_device.
OpenedVendor finish(VendorReport so_far, std::vector<std::shared_ptr<GpuDriver>> gpus);

// What the dynamic loader said means that there is no such library; anything else is one that can't be loaded.
bool says_missing(std::string_view said, std::string_view library);
// What serves where a GPU can't share its memory.
inline constexpr const char* whole_copies =
    "host memory serves as the device; clients that ask for this GPU get whole tables of their own there, "
    "which "
    "nobody else shares and the service does not count";
inline constexpr const char* unloadable_remedy =
    "the driver's library is there and can't be loaded: install the driver again, or raise the limit that is "
    "named";

}  // namespace penstock
