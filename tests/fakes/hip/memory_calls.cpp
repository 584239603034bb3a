// SPDX-License-Identifier: Apache-2.0
// Physical and virtual memory, with the quirks of the runtime's version. Signatures: hip_abi.h.
#include <mutex>

#include "tests/fakes/engine/address_space.hpp"
#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/hip/entry.hpp"

namespace penstock::fake {
namespace {

// As the runtime of this version would read the bytes it is given.
CudaMemProperties read_properties(const HipMemProperties* given) {
  CudaMemProperties read{};
  if (settings().quirks.old_layout) {
    const auto& old = *reinterpret_cast<const HipMemProperties52*>(given);
    read.type = old.type;
    read.handle_types = old.handle_types;
    read.location = {.type = old.location.type, .id = old.location.id};
    return read;
  }
  read.type = given->type;
  read.handle_types = given->handle_types;
  read.location = {.type = given->location.type, .id = given->location.id};
  read.win32_meta_data = given->win32_meta_data;
  for (std::size_t i = 0; i < sizeof read.reserved; ++i) read.reserved[i] = given->reserved[i];
  return read;
}

HipMemHandle handle_of(Handles::Value value) { return reinterpret_cast<HipMemHandle>(value); }
Handles::Value value_of(HipMemHandle handle) { return reinterpret_cast<Handles::Value>(handle); }

// The descriptor in the way that this version passes it; -1 for what is none.
int descriptor_of(void* shareable) {
  const auto value = reinterpret_cast<std::uintptr_t>(shareable);
  if (!settings().quirks.fd_by_pointer) return value > INT32_MAX ? -1 : static_cast<int>(value);
  if (value < 65536)
    die("hipMemImportFromShareableHandle: this version follows a pointer, and was given %#zx", value);
  return *static_cast<const int*>(shareable);
}

void require_current(int ordinal) {
  if (settings().quirks.current_device && ordinal != this_thread().ordinal) {
    die("hipMemCreate: memory for device %d while device %d is current lands on the wrong one", ordinal,
        this_thread().ordinal);
  }
}

}  // namespace

FAKE_EXPORT HipResult hipMemGetAllocationGranularity(std::size_t* bytes, const HipMemProperties* properties,
                                                     int option) {
  return answer("hipMemGetAllocationGranularity", Needs::vmm, [&]() -> HipResult {
    if (bytes == nullptr || properties == nullptr) return hip_error_invalid_value;
    if (const CudaResult bad = check_properties(read_properties(properties))) return coarse(bad);
    if (option != hip_mem_granularity_minimum && option != hip_mem_granularity_recommended)
      return hip_error_invalid_value;
    *bytes = option == hip_mem_granularity_minimum ? settings().granularity_minimum
                                                   : settings().granularity_recommended;
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipMemCreate(HipMemHandle* handle, std::size_t size, const HipMemProperties* properties,
                                   unsigned long long flags) {
  return answer("hipMemCreate", Needs::vmm, [&]() -> HipResult {
    if (handle == nullptr || properties == nullptr) return hip_error_invalid_value;
    const CudaMemProperties read = read_properties(properties);
    const std::scoped_lock lock(driver().mutex);
    Handles::Value made = 0;
    if (const CudaResult bad = check_properties(read)) return coarse(bad);
    require_current(read.location.id);
    const CudaResult result = driver().handles.create(size, read, flags, &made);
    if (result == cuda_success) *handle = handle_of(made);
    return coarse(result);
  });
}

FAKE_EXPORT HipResult hipMemRelease(HipMemHandle handle) {
  return answer("hipMemRelease", Needs::vmm, [&]() -> HipResult {
    const std::scoped_lock lock(driver().mutex);
    return driver().handles.release(value_of(handle));
  });
}

FAKE_EXPORT HipResult hipMemExportToShareableHandle(void* shareable, HipMemHandle handle, int type,
                                                    unsigned long long flags) {
  return answer("hipMemExportToShareableHandle", Needs::vmm, [&]() -> HipResult {
    const std::scoped_lock lock(driver().mutex);
    return coarse(driver().handles.export_fd(value_of(handle), type, flags, static_cast<int*>(shareable)));
  });
}

FAKE_EXPORT HipResult hipMemImportFromShareableHandle(HipMemHandle* handle, void* shareable, int type) {
  return answer("hipMemImportFromShareableHandle", Needs::vmm, [&]() -> HipResult {
    if (handle == nullptr) return hip_error_invalid_value;
    const int fd = descriptor_of(shareable);
    const std::scoped_lock lock(driver().mutex);
    Handles::Value made = 0;
    const CudaResult result = driver().handles.import_fd(fd, type, &made);
    if (result == cuda_success) *handle = handle_of(made);
    return coarse(result);
  });
}

FAKE_EXPORT HipResult hipMemAddressReserve(HipAddress* address, std::size_t size, std::size_t alignment,
                                           HipAddress wanted, unsigned long long flags) {
  return answer("hipMemAddressReserve", Needs::vmm, [&]() -> HipResult {
    if (address == nullptr) return hip_error_invalid_value;
    // A size that is no multiple of the granularity reads as a failed allocation.
    if (size == 0 || size % settings().granularity_minimum != 0) return hip_error_out_of_memory;
    std::uint64_t made = 0;
    const CudaResult result = AddressSpace::instance().reserve(size, alignment, number(wanted), flags, &made);
    if (result == cuda_success) *address = address_of(made);
    return coarse(result);
  });
}

FAKE_EXPORT HipResult hipMemAddressFree(HipAddress address, std::size_t size) {
  return answer("hipMemAddressFree", Needs::vmm, [&]() -> HipResult {
    const CudaResult result = AddressSpace::instance().free(number(address), size);
    return result == cuda_success ? HipResult{hip_success} : HipResult{hip_error_unknown};
  });
}

FAKE_EXPORT HipResult hipMemMap(HipAddress address, std::size_t size, std::size_t offset, HipMemHandle handle,
                                unsigned long long flags) {
  return answer("hipMemMap", Needs::vmm, [&]() -> HipResult {
    const std::scoped_lock lock(driver().mutex);
    const auto allocation = driver().handles.find(value_of(handle), "hipMemMap");
    return coarse(AddressSpace::instance().map(number(address), size, offset, *allocation, flags));
  });
}

FAKE_EXPORT HipResult hipMemUnmap(HipAddress address, std::size_t size) {
  return answer("hipMemUnmap", Needs::vmm,
                [&]() -> HipResult { return coarse(AddressSpace::instance().unmap(number(address), size)); });
}

FAKE_EXPORT HipResult hipMemSetAccess(HipAddress address, std::size_t size, const HipMemAccess* access,
                                      std::size_t count) {
  return answer("hipMemSetAccess", Needs::vmm, [&]() -> HipResult {
    // The layouts are equal: hip_abi.h and cuda_abi.h assert the same sizes and offsets.
    return coarse(AddressSpace::instance().set_access(number(address), size,
                                                      reinterpret_cast<const CudaMemAccess*>(access), count));
  });
}

FAKE_EXPORT HipResult hipMemGetAccess(unsigned long long* flags, const HipMemLocation* location,
                                      HipAddress address) {
  return answer("hipMemGetAccess", Needs::vmm, [&]() -> HipResult {
    if (location == nullptr) return hip_error_invalid_value;
    return coarse(AddressSpace::instance().get_access(number(address),
                                                      {.type = location->type, .id = location->id}, flags));
  });
}

// Memory of the simple kind, where VMM is missing.
FAKE_EXPORT HipResult hipMalloc(HipAddress* address, std::size_t size) {
  return answer("hipMalloc", Needs::context, [&]() -> HipResult {
    if (address == nullptr) return hip_error_invalid_value;
    std::uint64_t made = 0;
    const std::scoped_lock lock(driver().mutex);
    const CudaResult result = AddressSpace::instance().allocate(driver().current().device(), size, &made);
    if (result == cuda_success) *address = address_of(made);
    return coarse(result);
  });
}

FAKE_EXPORT HipResult hipFree(HipAddress address) {
  return answer("hipFree", Needs::context, [&]() -> HipResult {
    if (address == nullptr) return hip_success;
    const HipResult result = driver().current().synchronize();
    AddressSpace::instance().release(number(address));
    return result;
  });
}

}  // namespace penstock::fake
