// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/hip/hip_driver.hpp"

#include <fcntl.h>

#include "dataplane/base/mapping.hpp"

namespace penstock {
namespace {

HipMemHandle native(MemoryHandle handle) {
  return reinterpret_cast<HipMemHandle>(static_cast<std::uintptr_t>(handle));
}
HipAddress native(DeviceAddress address) {
  return reinterpret_cast<HipAddress>(static_cast<std::uintptr_t>(address));
}
MemoryHandle handle_of(HipMemHandle handle) { return MemoryHandle{reinterpret_cast<std::uintptr_t>(handle)}; }

}  // namespace

HipMemProperties hip_memory_properties(HipDevice device) {
  HipMemProperties properties{};
  properties.type = hip_mem_allocation_pinned;
  properties.handle_types = hip_mem_handle_posix_fd;
  properties.location = {.type = hip_mem_location_device, .id = device};
  return properties;
}

DriverCode HipDriver::create(std::uint64_t bytes, MemoryHandle& made) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  const HipMemProperties properties = hip_memory_properties(device_);
  HipMemHandle handle = nullptr;
  const DriverCode code{table_->mem_create(&handle, bytes, &properties, 0), "hipMemCreate"};
  if (code.ok()) made = handle_of(handle);
  return code;
}

DriverCode HipDriver::export_fd(MemoryHandle handle, UniqueFd& exported) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  int fd = -1;
  const DriverCode code{table_->mem_export(&fd, native(handle), hip_mem_handle_posix_fd, 0),
                        "hipMemExportToShareableHandle"};
  if (!code.ok()) return code;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  exported = UniqueFd(fd);
  return code;
}

DriverCode HipDriver::release(MemoryHandle handle) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  return {table_->mem_release(native(handle)), "hipMemRelease"};
}

DriverCode HipDriver::import_fd(int fd, MemoryHandle& imported) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  void* const by_value = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
  void* const shared = quirks_.import == HipImport::by_value ? by_value : &fd;
  HipMemHandle handle = nullptr;
  const DriverCode code{table_->mem_import(&handle, shared, hip_mem_handle_posix_fd),
                        "hipMemImportFromShareableHandle"};
  if (code.ok()) imported = handle_of(handle);
  return code;
}

DriverCode HipDriver::reserve(std::uint64_t bytes, std::uint64_t alignment, DeviceAddress& at) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  HipAddress address = nullptr;
  const DriverCode code{table_->mem_address_reserve(&address, bytes, alignment, nullptr, 0),
                        "hipMemAddressReserve"};
  if (code.ok()) at = DeviceAddress{reinterpret_cast<std::uintptr_t>(address)};
  return code;
}

DriverCode HipDriver::map(DeviceAddress at, std::uint64_t bytes, MemoryHandle handle) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  return {table_->mem_map(native(at), bytes, 0, native(handle), 0), "hipMemMap"};
}

DriverCode HipDriver::set_access(DeviceAddress at, std::uint64_t bytes, MappedRights rights) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  const HipMemAccess access{
      .location = {.type = hip_mem_location_device, .id = device_},
      .flags = rights == MappedRights::read ? hip_mem_access_read : hip_mem_access_read_write};
  return {table_->mem_set_access(native(at), bytes, &access, 1), "hipMemSetAccess"};
}

DriverCode HipDriver::unmap(DeviceAddress at, std::uint64_t bytes) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  const DriverCode code{table_->mem_unmap(native(at), bytes), "hipMemUnmap"};
  // Refused, it costs the discovery of stray accesses, and nothing else.
  if (code.ok() && quirks_.unmap_leaves_access) static_cast<void>(make_inaccessible(native(at), bytes));
  return code;
}

DriverCode HipDriver::free_range(DeviceAddress at, std::uint64_t bytes) {
  if (const DriverCode selected = select(); !selected.ok()) return selected;
  return {table_->mem_address_free(native(at), bytes), "hipMemAddressFree"};
}

DriverCode HipDriver::open_context(std::unique_ptr<DriverContext>& opened) {
  return open_hip_context(table_, device_, opened);
}

DriverCode HipDriver::adopt_context(std::unique_ptr<DriverContext>& adopted) {
  return adopt_hip_context(table_, device_, adopted);
}

DriverCode HipDriver::adopt_primary_context(std::unique_ptr<DriverContext>& adopted) {
  return adopt_primary_hip_context(table_, device_, adopted);
}

}  // namespace penstock
