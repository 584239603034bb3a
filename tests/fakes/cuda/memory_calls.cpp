// SPDX-License-Identifier: Apache-2.0
// Physical and virtual memory; none of these calls needs a context. Signatures: cuda_abi.h.
#include <mutex>

#include "tests/fakes/cuda/entry.hpp"
#include "tests/fakes/engine/address_space.hpp"

namespace penstock::fake {

FAKE_EXPORT CudaResult cuMemGetAllocationGranularity(std::size_t* bytes, const CudaMemProperties* properties,
                                                     int option) {
  return answer("cuMemGetAllocationGranularity", Needs::vmm, [&]() -> CudaResult {
    if (bytes == nullptr || properties == nullptr) return cuda_error_invalid_value;
    if (option != cuda_mem_granularity_minimum && option != cuda_mem_granularity_recommended) {
      return cuda_error_invalid_value;
    }
    if (const CudaResult bad = check_properties(*properties)) return bad;
    *bytes = option == cuda_mem_granularity_minimum ? settings().granularity_minimum
                                                    : settings().granularity_recommended;
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuMemCreate(CudaMemHandle* handle, std::size_t size,
                                   const CudaMemProperties* properties, unsigned long long flags) {
  return answer("cuMemCreate", Needs::vmm, [&]() -> CudaResult {
    if (handle == nullptr || properties == nullptr) return cuda_error_invalid_value;
    const std::scoped_lock lock(driver().mutex);
    Handles::Value value = 0;
    const CudaResult result = driver().handles.create(size, *properties, flags, &value);
    if (result == cuda_success) *handle = value;
    return result;
  });
}

FAKE_EXPORT CudaResult cuMemRelease(CudaMemHandle handle) {
  return answer("cuMemRelease", Needs::vmm, [&]() -> CudaResult {
    const std::scoped_lock lock(driver().mutex);
    return driver().handles.release(handle);
  });
}

FAKE_EXPORT CudaResult cuMemExportToShareableHandle(void* shareable, CudaMemHandle handle, int type,
                                                    unsigned long long flags) {
  return answer("cuMemExportToShareableHandle", Needs::vmm, [&]() -> CudaResult {
    const std::scoped_lock lock(driver().mutex);
    return driver().handles.export_fd(handle, type, flags, static_cast<int*>(shareable));
  });
}

FAKE_EXPORT CudaResult cuMemImportFromShareableHandle(CudaMemHandle* handle, void* shareable, int type) {
  return answer("cuMemImportFromShareableHandle", Needs::vmm, [&]() -> CudaResult {
    const auto value = reinterpret_cast<std::uintptr_t>(shareable);
    if (handle == nullptr || value > INT32_MAX) return cuda_error_invalid_value;
    const std::scoped_lock lock(driver().mutex);
    Handles::Value made = 0;
    const CudaResult result = driver().handles.import_fd(static_cast<int>(value), type, &made);
    if (result == cuda_success) *handle = made;
    return result;
  });
}

FAKE_EXPORT CudaResult cuMemAddressReserve(CudaAddress* address, std::size_t size, std::size_t alignment,
                                           CudaAddress wanted, unsigned long long flags) {
  return answer("cuMemAddressReserve", Needs::vmm, [&]() -> CudaResult {
    if (address == nullptr) return cuda_error_invalid_value;
    std::uint64_t made = 0;
    const CudaResult result = AddressSpace::instance().reserve(size, alignment, wanted, flags, &made);
    if (result == cuda_success) *address = made;
    return result;
  });
}

FAKE_EXPORT CudaResult cuMemAddressFree(CudaAddress address, std::size_t size) {
  return answer("cuMemAddressFree", Needs::vmm,
                [&]() -> CudaResult { return AddressSpace::instance().free(address, size); });
}

FAKE_EXPORT CudaResult cuMemMap(CudaAddress address, std::size_t size, std::size_t offset,
                                CudaMemHandle handle, unsigned long long flags) {
  return answer("cuMemMap", Needs::vmm, [&]() -> CudaResult {
    const std::scoped_lock lock(driver().mutex);
    return AddressSpace::instance().map(address, size, offset, *driver().handles.find(handle, "cuMemMap"),
                                        flags);
  });
}

FAKE_EXPORT CudaResult cuMemUnmap(CudaAddress address, std::size_t size) {
  return answer("cuMemUnmap", Needs::vmm,
                [&]() -> CudaResult { return AddressSpace::instance().unmap(address, size); });
}

FAKE_EXPORT CudaResult cuMemSetAccess(CudaAddress address, std::size_t size, const CudaMemAccess* access,
                                      std::size_t count) {
  return answer("cuMemSetAccess", Needs::vmm, [&]() -> CudaResult {
    return AddressSpace::instance().set_access(address, size, access, count);
  });
}

FAKE_EXPORT CudaResult cuMemGetAccess(unsigned long long* flags, const CudaMemLocation* location,
                                      CudaAddress address) {
  return answer("cuMemGetAccess", Needs::vmm, [&]() -> CudaResult {
    if (location == nullptr) return cuda_error_invalid_value;
    return AddressSpace::instance().get_access(address, *location, flags);
  });
}

}  // namespace penstock::fake
