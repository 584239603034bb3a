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
  if (const CudaResult bad = enter("cuCtxCreate", Needs::init)) return bad;
  if (context == nullptr) return cuda_error_invalid_value;
  if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
  Context* made = nullptr;
  if (const CudaResult bad = driver().create_context(Driver::device_of(device), &made)) return bad;
  this_thread().contexts.push_back(made);
  *context = handle_of(made);
  return cuda_success;
}

FAKE_EXPORT CudaResult cuCtxDestroy_v2(CudaContext context) {
  if (const CudaResult bad = enter("cuCtxDestroy", Needs::init)) return bad;
  return driver().destroy_context(reinterpret_cast<Context*>(context));
}

FAKE_EXPORT CudaResult cuCtxPushCurrent_v2(CudaContext context) {
  if (const CudaResult bad = enter("cuCtxPushCurrent", Needs::init)) return bad;
  Context& pushed = driver().known(context, "cuCtxPushCurrent");
  if (pushed.is_destroyed()) return cuda_error_invalid_context;
  this_thread().contexts.push_back(&pushed);
  return cuda_success;
}

FAKE_EXPORT CudaResult cuCtxPopCurrent_v2(CudaContext* context) {
  if (const CudaResult bad = enter("cuCtxPopCurrent", Needs::init)) return bad;
  auto& contexts = this_thread().contexts;
  if (contexts.empty()) return cuda_error_invalid_context;
  if (context != nullptr) *context = handle_of(contexts.back());
  contexts.pop_back();
  return cuda_success;
}

FAKE_EXPORT CudaResult cuCtxSetCurrent(CudaContext context) {
  if (const CudaResult bad = enter("cuCtxSetCurrent", Needs::init)) return bad;
  auto& contexts = this_thread().contexts;
  Context* const entered = context == nullptr ? nullptr : &driver().known(context, "cuCtxSetCurrent");
  if (entered != nullptr && entered->is_destroyed()) return cuda_error_invalid_context;
  if (!contexts.empty()) contexts.pop_back();
  if (entered != nullptr) contexts.push_back(entered);
  return cuda_success;
}

FAKE_EXPORT CudaResult cuCtxGetCurrent(CudaContext* context) {
  if (const CudaResult bad = enter("cuCtxGetCurrent", Needs::init)) return bad;
  if (context == nullptr) return cuda_error_invalid_value;
  const auto& contexts = this_thread().contexts;
  *context = contexts.empty() ? nullptr : handle_of(contexts.back());
  return cuda_success;
}

FAKE_EXPORT CudaResult cuCtxGetDevice(CudaDevice* device) {
  if (const CudaResult bad = enter("cuCtxGetDevice", Needs::context)) return bad;
  if (device == nullptr) return cuda_error_invalid_value;
  *device = Driver::ordinal_of(driver().current().device());
  return cuda_success;
}

FAKE_EXPORT CudaResult cuCtxSynchronize() {
  if (const CudaResult bad = enter("cuCtxSynchronize", Needs::context)) return bad;
  return driver().current().synchronize();
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
  if (const CudaResult bad = enter("cuDevicePrimaryCtxRetain", Needs::init)) return bad;
  if (context == nullptr) return cuda_error_invalid_value;
  if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
  Context* made = nullptr;
  if (const CudaResult bad = driver().retain_primary(Driver::device_of(device), &made)) return bad;
  *context = handle_of(made);
  return cuda_success;
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxRelease_v2(CudaDevice device) {
  if (const CudaResult bad = enter("cuDevicePrimaryCtxRelease", Needs::init)) return bad;
  if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
  return driver().release_primary(Driver::device_of(device));
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxReset_v2(CudaDevice device) {
  if (const CudaResult bad = enter("cuDevicePrimaryCtxReset", Needs::init)) return bad;
  if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
  driver().reset_primary(Driver::device_of(device));
  return cuda_success;
}

FAKE_EXPORT CudaResult cuDevicePrimaryCtxGetState(CudaDevice device, unsigned* flags, int* active) {
  if (const CudaResult bad = enter("cuDevicePrimaryCtxGetState", Needs::init)) return bad;
  if (flags == nullptr || active == nullptr) return cuda_error_invalid_value;
  if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
  *flags = 0;
  *active = driver().primary_is_active(Driver::device_of(device));
  return cuda_success;
}

FAKE_EXPORT CudaResult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (const CudaResult bad = enter("cuMemGetInfo", Needs::context)) return bad;
  if (free_bytes == nullptr || total_bytes == nullptr) return cuda_error_invalid_value;
  const std::scoped_lock lock(driver().mutex);
  const std::uint64_t used = Ledger::instance().used_bytes(driver().current().device());
  *total_bytes = settings().device_bytes;
  *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
  return cuda_success;
}

FAKE_EXPORT CudaResult cuMemAlloc_v2(CudaAddress* address, std::size_t size) {
  if (const CudaResult bad = enter("cuMemAlloc", Needs::context)) return bad;
  if (address == nullptr) return cuda_error_invalid_value;
  std::uint64_t made = 0;
  const std::scoped_lock lock(driver().mutex);
  const CudaResult result = AddressSpace::instance().allocate(driver().current().device(), size, &made);
  if (result == cuda_success) *address = made;
  return result;
}

// Waits for the device first, as drivers do: that is no way to free memory beside other work.
FAKE_EXPORT CudaResult cuMemFree_v2(CudaAddress address) {
  if (const CudaResult bad = enter("cuMemFree", Needs::context)) return bad;
  if (address == 0) return cuda_success;
  const CudaResult result = driver().current().synchronize();
  AddressSpace::instance().release(address);
  return result;
}

FAKE_EXPORT CudaResult cuMemHostAlloc(void** memory, std::size_t size, unsigned /*flags*/) {
  if (const CudaResult bad = enter("cuMemHostAlloc", Needs::context)) return bad;
  return HostMemory::instance().allocate(size, memory);
}

FAKE_EXPORT CudaResult cuMemFreeHost(void* memory) {
  if (const CudaResult bad = enter("cuMemFreeHost", Needs::context)) return bad;
  return HostMemory::instance().free(memory);
}

FAKE_EXPORT CudaResult cuMemHostRegister_v2(void* memory, std::size_t size, unsigned flags) {
  if (const CudaResult bad = enter("cuMemHostRegister", Needs::context)) return bad;
  if ((flags & ~15U) != 0) return cuda_error_invalid_value;
  return HostMemory::instance().add(memory, size);
}

FAKE_EXPORT CudaResult cuMemHostUnregister(void* memory) {
  if (const CudaResult bad = enter("cuMemHostUnregister", Needs::context)) return bad;
  return HostMemory::instance().remove(memory);
}

FAKE_EXPORT CudaResult cuMemHostGetDevicePointer_v2(CudaAddress* address, void* memory, unsigned flags) {
  if (const CudaResult bad = enter("cuMemHostGetDevicePointer", Needs::context)) return bad;
  const auto host = reinterpret_cast<std::uint64_t>(memory);
  if (address == nullptr || flags != 0 || !HostMemory::instance().is_registered(host, 1)) {
    return cuda_error_invalid_value;
  }
  *address = host;
  return cuda_success;
}

}  // namespace penstock::fake
