// SPDX-License-Identifier: Apache-2.0
// One NVIDIA GPU through libcuda. Memory calls need no context; whoever only makes and exports memory has none.
#pragma once

#include <memory>

#include "dataplane/device/cuda/cuda_table.hpp"
#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

class CudaDriver final : public GpuDriver {
 public:
  CudaDriver(std::shared_ptr<const CudaTable> table, CudaDevice device, GpuDescription description)
      : table_(std::move(table)), device_(device), description_(std::move(description)) {}

  const GpuDescription& description() const override { return description_; }
  DriverCode create(std::uint64_t bytes, MemoryHandle& made) override;
  DriverCode export_fd(MemoryHandle handle, UniqueFd& exported) override;
  DriverCode release(MemoryHandle handle) override;
  DriverCode import_fd(int fd, MemoryHandle& imported) override;
  bool imports_at_once() const override { return true; }
  DriverCode reserve(std::uint64_t bytes, std::uint64_t alignment, DeviceAddress& at) override;
  DriverCode map(DeviceAddress at, std::uint64_t bytes, MemoryHandle handle) override;
  DriverCode set_access(DeviceAddress at, std::uint64_t bytes, MappedRights rights) override;
  DriverCode unmap(DeviceAddress at, std::uint64_t bytes) override;
  DriverCode free_range(DeviceAddress at, std::uint64_t bytes) override;
  DriverCode open_context(std::unique_ptr<DriverContext>& opened) override;
  DriverCode adopt_context(std::unique_ptr<DriverContext>& adopted) override;
  DriverCode adopt_primary_context(std::unique_ptr<DriverContext>& adopted) override;

 private:
  const std::shared_ptr<const CudaTable> table_;
  const CudaDevice device_;
  const GpuDescription description_;
};

// What memory of this device is made of; all reserved bytes are zero.
CudaMemProperties cuda_memory_properties(CudaDevice device);
// Of the primary context, which is shared with whatever else of this process uses the device.
DriverCode open_cuda_context(std::shared_ptr<const CudaTable> table, CudaDevice device,
                             std::unique_ptr<DriverContext>& opened);
DriverCode adopt_cuda_context(std::shared_ptr<const CudaTable> table, CudaDevice device,
                              std::unique_ptr<DriverContext>& adopted);
DriverCode adopt_primary_cuda_context(std::shared_ptr<const CudaTable> table, CudaDevice device,
                                      std::unique_ptr<DriverContext>& adopted);

}  // namespace penstock
