// SPDX-License-Identifier: Apache-2.0
// One AMD GPU through libamdhip64. Newer runtimes take the device of a memory call from the calling thread, so that it
// is set before each of them. There are no contexts to hold or to do without: the runtime keeps one per device.
#pragma once

#include <memory>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/hip/hip_quirks.hpp"
#include "dataplane/device/hip/hip_table.hpp"

namespace penstock {

class HipDriver final : public GpuDriver {
 public:
  HipDriver(std::shared_ptr<const HipTable> table, HipQuirks quirks, HipDevice device,
            GpuDescription description)
      : table_(std::move(table)),
        quirks_(std::move(quirks)),
        device_(device),
        description_(std::move(description)) {}

  const GpuDescription& description() const override { return description_; }
  DriverCode create(std::uint64_t bytes, MemoryHandle& made) override;
  DriverCode export_fd(MemoryHandle handle, UniqueFd& exported) override;
  DriverCode release(MemoryHandle handle) override;
  DriverCode import_fd(int fd, MemoryHandle& imported) override;
  bool imports_at_once() const override { return false; }  // 7.0 uses the descriptor when access is set.
  DriverCode reserve(std::uint64_t bytes, std::uint64_t alignment, DeviceAddress& at) override;
  DriverCode map(DeviceAddress at, std::uint64_t bytes, MemoryHandle handle) override;
  DriverCode set_access(DeviceAddress at, std::uint64_t bytes, MappedRights rights) override;
  DriverCode unmap(DeviceAddress at, std::uint64_t bytes) override;
  bool unmaps_several() const override { return !quirks_.unmaps_one_by_one; }
  DriverCode free_range(DeviceAddress at, std::uint64_t bytes) override;
  DriverCode open_context(std::unique_ptr<DriverContext>& opened) override;
  DriverCode adopt_context(std::unique_ptr<DriverContext>& adopted) override;
  DriverCode adopt_primary_context(std::unique_ptr<DriverContext>& adopted) override;

  const HipQuirks& quirks() const { return quirks_; }

 private:
  DriverCode select() const { return {table_->set_device(device_), "hipSetDevice"}; }

  const std::shared_ptr<const HipTable> table_;
  const HipQuirks quirks_;
  const HipDevice device_;
  const GpuDescription description_;
};

// What memory of this device is made of; all reserved bytes are zero.
HipMemProperties hip_memory_properties(HipDevice device);
DriverCode open_hip_context(std::shared_ptr<const HipTable> table, HipDevice device,
                            std::unique_ptr<DriverContext>& opened);
DriverCode adopt_hip_context(std::shared_ptr<const HipTable> table, HipDevice device,
                             std::unique_ptr<DriverContext>& adopted);
// The runtime makes it when it is first used.
DriverCode adopt_primary_hip_context(std::shared_ptr<const HipTable> table, HipDevice device,
                                     std::unique_ptr<DriverContext>& adopted);

}  // namespace penstock
