// SPDX-License-Identifier: Apache-2.0
// One reading of who uses a GPU's memory, and the seam to those who can tell.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/result.hpp"
#include "dataplane/device/gpu/gpu_identity.hpp"

namespace penstock {

struct ProcessUsage {
  std::uint32_t pid = 0;  // In the reader's pid namespace; another namespace's processes may be missing.
  std::uint64_t bytes = 0;
  friend bool operator==(const ProcessUsage&, const ProcessUsage&) = default;
};

enum class UsageHealth : std::uint8_t {
  readable,
  unreadable,  // The figures below are not filled in: a permission, or a call that this device refuses.
  lost,        // The driver says that the GPU has gone, or must be reset.
};

// Frames of this service around a reading: at least and at most so much of them was in existence.
struct FrameBytes {
  std::uint64_t least = 0, most = 0;
  friend bool operator==(const FrameBytes&, const FrameBytes&) = default;
};

// One device: a GPU, or one part of a GPU that is divided (MIG).
struct DeviceUsage {
  GpuVendor vendor = GpuVendor::cuda;
  std::array<std::uint8_t, 16> uuid{};  // Zero where the source knows none. Of the part, for a part.
  PciAddress pci;                       // Of the whole GPU, for a part too.
  bool is_part = false;
  UsageHealth health = UsageHealth::readable;
  std::int32_t native = 0;  // What the driver answered, when not readable.

  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;      // Without the reserved ones.
  std::uint64_t reserved_bytes = 0;  // By the driver, for nobody.
  // Total and used are the machine's: the device has no memory of its own, and `used` is what cannot be made available.
  bool shares_host_memory = false;

  bool knows_processes = false;         // `processes` is the whole truth, as far as the driver attributes.
  std::vector<ProcessUsage> processes;  // One entry a pid, in their order.
  std::optional<FrameBytes> frames{};   // Only from a CountedSource.
};

// Readings of one vendor's tools. Calls block, and may never return: each source has a thread of its own (UsageWatch).
class UsageSource {
 public:
  virtual ~UsageSource() = default;
  UsageSource(const UsageSource&) = delete;
  UsageSource& operator=(const UsageSource&) = delete;

  virtual std::string_view name() const = 0;  // "nvml": for reports. A static string; any thread.
  // Opens at the first call, and again after a failure, what it reads from. Errc::not_found: not on this machine.
  virtual Result<std::vector<DeviceUsage>> read() = 0;

 protected:
  UsageSource() = default;
};

// The entry of this GPU: by UUID, which also tells parts apart, else by PCI address among whole GPUs. Null: none.
const DeviceUsage* find_usage(const std::vector<DeviceUsage>& devices, const GpuIdentity& gpu);

// The whole GPUs of a vendor, from reading to reading.
class KnownGpus {
 public:
  // Adds as lost, with this answer, whichever was in the last reading and is not in this one.
  void add_missing(std::vector<DeviceUsage>& devices, std::int32_t native);

 private:
  std::vector<DeviceUsage> known_;
};

// Sorts by pid and adds up what one pid has several times. A pid that two lists show is not two: see nvml_source.
void merge_processes(std::vector<ProcessUsage>& processes);

}  // namespace penstock
