// SPDX-License-Identifier: Apache-2.0
// Contexts, and the memory calls that need one. Signatures: cuda_abi.h.
#include <mutex>

#include "tests/fakes/cuda/entry.hpp"
#include "tests/fakes/engine/address_space.hpp"
#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/host_memory.hpp"
#include "tests/fakes/engine/ledger.hpp"

namespace penstock::fake {
namespace {

CudaContext handle_of(Context* context) { return reinterpret_cast<CudaContext>(context); }

}  // namespace

FAKE_EXPORT CudaResult cuCtxCreate_v2(CudaContext* context, unsigned /*flags*/, CudaDevice device) {
  return answer("cuCtxCreate", Needs::init, [&]() -> CudaResult {
    if (context == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    Context* made = nullptr;
    if (const CudaResult bad = driver().create_context(Driver::device_of(device), &made)) return bad;
    this_thread().contexts.push_back(made);
    *context = handle_of(made);
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuCtxDestroy_v2(CudaContext context) {
  return answer("cuCtxDestroy", Needs::init, [&]() -> CudaResult {
    return driver().destroy_context(reinterpret_cast<Context*>(context));
  });
}

FAKE_EXPORT CudaResult cuCtxPushCurrent_v2(CudaContext context) {
  return answer("cuCtxPushCurrent", Needs::init, [&]() -> CudaResult {
    Context& pushed = driver().known(context, "cuCtxPushCurrent");
    if (pushed.is_destroyed()) return cuda_error_invalid_context;
    this_thread().contexts.push_back(&pushed);
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuCtxPopCurrent_v2(CudaContext* context) {
  return answer("cuCtxPopCurrent", Needs::init, [&]() -> CudaResult {
    auto& contexts = this_thread().contexts;
    if (contexts.empty()) return cuda_error_invalid_context;
    if (context != nullptr) *context = handle_of(contexts.back());
    contexts.pop_back();
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuCtxSetCurrent(CudaContext context) {
  return answer("cuCtxSetCurrent", Needs::init, [&]() -> CudaResult {
    auto& contexts = this_thread().contexts;
    Context* const entered = context == nullptr ? nullptr : &driver().known(context, "cuCtxSetCurrent");
    if (entered != nullptr && entered->is_destroyed()) return cuda_error_invalid_context;
    if (!contexts.empty()) contexts.pop_back();
    if (entered != nullptr) contexts.push_back(entered);
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuCtxGetCurrent(CudaContext* context) {
  return answer("cuCtxGetCurrent", Needs::init, [&]() -> CudaResult {
    if (context == nullptr) return cuda_error_invalid_value;
    const auto& contexts = this_thread().contexts;
    *context = contexts.empty() ? nullptr : handle_of(contexts.back());
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuCtxGetDevice(CudaDevice* device) {
  return answer("cuCtxGetDevice", Needs::context, [&]() -> CudaResult {
    if (device == nullptr) return cuda_error_invalid_value;
    *device = Driver::ordinal_of(driver().current().device());
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuCtxSynchronize() {
  return answer("cuCtxSynchronize", Needs::context,
                [&]() -> CudaResult { return driver().current().synchronize(); });
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
  return answer("cuDevicePrimaryCtxRetain", Needs::init, [&]() -> CudaResult {
    if (context == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    Context* made = nullptr;
    if (const CudaResult bad = driver().retain_primary(Driver::device_of(device), &made)) return bad;
    *context = handle_of(made);
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device) {
  return answer("cuDevicePrimaryCtxRelease", Needs::init, [&]() -> CudaResult {
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    return driver().release_primary(Driver::device_of(device));
  });
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxReset_v2(CudaDevice device) {
  return answer("cuDevicePrimaryCtxReset", Needs::init, [&]() -> CudaResult {
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    driver().reset_primary(Driver::device_of(device));
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxGetState(CudaDevice device, unsigned* flags, int* active) {
  return answer("cuDevicePrimaryCtxGetState", Needs::init, [&]() -> CudaResult {
    if (flags == nullptr || active == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    *flags = 0;
    *active = driver().primary_is_active(Driver::device_of(device));
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return answer("cuMemGetInfo", Needs::context, [&]() -> CudaResult {
    if (free_bytes == nullptr || total_bytes == nullptr) return cuda_error_invalid_value;
    const std::scoped_lock lock(driver().mutex);
    const std::uint64_t used = Ledger::instance().used_bytes(driver().current().device());
    *total_bytes = settings().device_bytes;
    *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuMemAlloc_v2(CudaAddress* address, std::size_t size) {
  return answer("cuMemAlloc", Needs::context, [&]() -> CudaResult {
    if (address == nullptr) return cuda_error_invalid_value;
    std::uint64_t made = 0;
    const std::scoped_lock lock(driver().mutex);
    const CudaResult result = AddressSpace::instance().allocate(driver().current().device(), size, &made);
    if (result == cuda_success) *address = made;
    return result;
  });
}

// Waits for the device first, as drivers do: that is no way to free memory beside other work.
FAKE_EXPORT CudaResult cuMemFree_v2(CudaAddress address) {
  return answer("cuMemFree", Needs::context, [&]() -> CudaResult {
    if (address == 0) return cuda_success;
    const CudaResult result = driver().current().synchronize();
    AddressSpace::instance().release(address);
    return result;
  });
}

FAKE_EXPORT CudaResult cuMemHostAlloc(void** memory, std::size_t size, unsigned /*flags*/) {
  return answer("cuMemHostAlloc", Needs::context,
                [&]() -> CudaResult { return HostMemory::instance().allocate(size, memory); });
}

FAKE_EXPORT CudaResult cuMemFreeHost(void* memory) {
  return answer("cuMemFreeHost", Needs::context,
                [&]() -> CudaResult { return HostMemory::instance().free(memory); });
}

FAKE_EXPORT CudaResult cuMemHostRegister_v2(void* memory, std::size_t size, unsigned flags) {
  return answer("cuMemHostRegister", Needs::context, [&]() -> CudaResult {
    if ((flags & ~15U) != 0) return cuda_error_invalid_value;
    return HostMemory::instance().add(memory, size);
  });
}

FAKE_EXPORT CudaResult cuMemHostUnregister(void* memory) {
  return answer("cuMemHostUnregister", Needs::context,
                [&]() -> CudaResult { return HostMemory::instance().remove(memory); });
}

FAKE_EXPORT CudaResult cuMemHostGetDevicePointer_v2(CudaAddress* address, void* memory, unsigned flags) {
  return answer("cuMemHostGetDevicePointer", Needs::context, [&]() -> CudaResult {
    const auto host = reinterpret_cast<std::uint64_t>(memory);
    if (address == nullptr || flags != 0 || !HostMemory::instance().is_registered(host, 1)) {
      return cuda_error_invalid_value;
    }
    *address = host;
    return cuda_success;
  });
}

}  // namespace penstock::fake
