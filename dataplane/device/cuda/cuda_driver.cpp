// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/cuda/cuda_driver.hpp"

#include <fcntl.h>

namespace penstock {
namespace {

CudaMemHandle native(MemoryHandle handle) { return static_cast<CudaMemHandle>(handle); }
CudaAddress native(DeviceAddress address) { return static_cast<CudaAddress>(address); }

}  // namespace

CudaMemProperties cuda_memory_properties(CudaDevice device) {
  CudaMemProperties properties{};
  properties.type = cuda_mem_allocation_pinned;
  properties.handle_types = cuda_mem_handle_posix_fd;
  properties.location = {.type = cuda_mem_location_device, .id = device};
  return properties;
}

DriverCode CudaDriver::create(std::uint64_t bytes, MemoryHandle& made) {
  const CudaMemProperties properties = cuda_memory_properties(device_);
  CudaMemHandle handle = 0;
  const DriverCode code{table_->mem_create(&handle, bytes, &properties, 0), "cuMemCreate"};
  if (code.ok()) made = MemoryHandle{handle};
  return code;
}

DriverCode CudaDriver::export_fd(MemoryHandle handle, UniqueFd& exported) {
  int fd = -1;
  const DriverCode code{table_->mem_export(&fd, native(handle), cuda_mem_handle_posix_fd, 0),
                        "cuMemExportToShareableHandle"};
  if (!code.ok()) return code;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  exported = UniqueFd(fd);
  return code;
}

DriverCode CudaDriver::release(MemoryHandle handle) {
  return {table_->mem_release(native(handle)), "cuMemRelease"};
}

DriverCode CudaDriver::import_fd(int fd, MemoryHandle& imported) {
  CudaMemHandle handle = 0;
  void* by_value = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
  const DriverCode code{table_->mem_import(&handle, by_value, cuda_mem_handle_posix_fd),
                        "cuMemImportFromShareableHandle"};
  if (code.ok()) imported = MemoryHandle{handle};
  return code;
}

DriverCode CudaDriver::reserve(std::uint64_t bytes, std::uint64_t alignment, DeviceAddress& at) {
  CudaAddress address = 0;
  const DriverCode code{table_->mem_address_reserve(&address, bytes, alignment, 0, 0), "cuMemAddressReserve"};
  if (code.ok()) at = DeviceAddress{address};
  return code;
}

DriverCode CudaDriver::map(DeviceAddress at, std::uint64_t bytes, MemoryHandle handle) {
  return {table_->mem_map(native(at), bytes, 0, native(handle), 0), "cuMemMap"};
}

DriverCode CudaDriver::set_access(DeviceAddress at, std::uint64_t bytes, MappedRights rights) {
  const CudaMemAccess access{
      .location = {.type = cuda_mem_location_device, .id = device_},
      .flags = rights == MappedRights::read ? cuda_mem_access_read : cuda_mem_access_read_write};
  return {table_->mem_set_access(native(at), bytes, &access, 1), "cuMemSetAccess"};
}

DriverCode CudaDriver::unmap(DeviceAddress at, std::uint64_t bytes) {
  return {table_->mem_unmap(native(at), bytes), "cuMemUnmap"};
}

DriverCode CudaDriver::free_range(DeviceAddress at, std::uint64_t bytes) {
  return {table_->mem_address_free(native(at), bytes), "cuMemAddressFree"};
}

DriverCode CudaDriver::open_context(std::unique_ptr<DriverContext>& opened) {
  return open_cuda_context(table_, device_, opened);
}

DriverCode CudaDriver::adopt_context(std::unique_ptr<DriverContext>& adopted) {
  return adopt_cuda_context(table_, device_, adopted);
}

DriverCode CudaDriver::adopt_primary_context(std::unique_ptr<DriverContext>& adopted) {
  return adopt_primary_cuda_context(table_, device_, adopted);
}

}  // namespace penstock
