// SPDX-License-Identifier: Apache-2.0
// Start-up, errors, devices. Signatures: dataplane/device/hip/hip_abi.h.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

#include "tests/fakes/engine/ledger.hpp"
#include "tests/fakes/hip/entry.hpp"

namespace penstock::fake {

// The two libraries differ in their version alone.
const FrontEnd front_end{
    .vendor = Vendor::hip, .name = "hip", .default_version = PENSTOCK_FAKE_HIP_DEFAULT_VERSION};

namespace {

struct ErrorText {
  HipResult code;
  const char* name;
  const char* text;
};
constexpr ErrorText error_texts[] = {
    {hip_success, "hipSuccess", "no error"},
    {hip_error_invalid_value, "hipErrorInvalidValue", "invalid argument"},
    {hip_error_out_of_memory, "hipErrorOutOfMemory", "out of memory"},
    {hip_error_not_initialized, "hipErrorNotInitialized", "initialization error"},
    {hip_error_no_device, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {hip_error_invalid_device, "hipErrorInvalidDevice", "invalid device ordinal"},
    {hip_error_invalid_context, "hipErrorInvalidContext", "invalid device context"},
    {hip_error_no_binary_for_gpu, "hipErrorNoBinaryForGpu",
     "no kernel image is available for execution on the device"},
    {hip_error_not_found, "hipErrorNotFound", "named symbol not found"},
    {hip_error_not_ready, "hipErrorNotReady", "device not ready"},
    {hip_error_illegal_address, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {hip_error_launch_failure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {hip_error_not_supported, "hipErrorNotSupported", "operation not supported"},
};

const ErrorText* text_of(HipResult error) {
  const auto* found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                   [&](const ErrorText& each) { return each.code == error; });
  return found == std::end(error_texts) ? nullptr : found;
}

HipResult attribute_of(int attribute, int device, int* value) {
  switch (attribute) {
    case hip_attribute_compute_mode: *value = settings().compute_mode; break;
    case hip_attribute_integrated: *value = settings().integrated; break;
    case hip_attribute_compute_capability_major: *value = 9; break;
    case hip_attribute_max_threads_per_block: *value = 1024; break;
    case hip_attribute_compute_capability_minor: *value = 0; break;
    case hip_attribute_multiprocessor_count: *value = 8; break;
    case hip_attribute_pci_bus_id: *value = 0x81 + device; break;
    case hip_attribute_pci_device_id: *value = 0; break;
    case hip_attribute_pci_domain_id: *value = 0; break;
    case hip_attribute_warp_size: *value = 64; break;
    case hip_attribute_virtual_memory_management_supported:
      if (settings().version < 50'300'000) return hip_error_invalid_value;
      *value = !settings().no_vmm;
      break;
    default: return hip_error_invalid_value;
  }
  return hip_success;
}

}  // namespace

// Answers before initialisation, and with no device.
FAKE_EXPORT HipResult hipRuntimeGetVersion(int* version) {
  return answer("hipRuntimeGetVersion", Needs::nothing, [&]() -> HipResult {
    if (version == nullptr) return hip_error_invalid_value;
    *version = settings().version;
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipInit(unsigned flags) {
  return answer("hipInit", Needs::nothing, [&]() -> HipResult {
    return flags != 0 ? HipResult{hip_error_invalid_value} : driver().init();
  });
}

FAKE_EXPORT const char* hipGetErrorName(HipResult error) {
  const ErrorText* text = text_of(error);
  return text == nullptr ? "hipErrorUnknown" : text->name;
}

FAKE_EXPORT const char* hipGetErrorString(HipResult error) {
  const ErrorText* text = text_of(error);
  return text == nullptr ? "unknown error" : text->text;
}

FAKE_EXPORT HipResult hipGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return answer("hipGetDeviceCount", Needs::init, [&]() -> HipResult {
    if (count == nullptr) return hip_error_invalid_value;
    *count = static_cast<int>(settings().visible.size());
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipDeviceGet(HipDevice* device, int ordinal) {
  return answer("hipDeviceGet", Needs::init, [&]() -> HipResult {
    if (device == nullptr) return hip_error_invalid_value;
    if (Driver::device_of(ordinal) < 0) return hip_error_invalid_device;
    *device = ordinal;
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipDeviceGetName(char* name, int length, HipDevice device) {
  return answer("hipDeviceGetName", Needs::init, [&]() -> HipResult {
    if (name == nullptr || length <= 0) return hip_error_invalid_value;
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    std::snprintf(name, static_cast<std::size_t>(length), "Fake HIP GPU %d", Driver::device_of(device));
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipDeviceGetAttribute(int* value, int attribute, int device) {
  return answer("hipDeviceGetAttribute", Needs::init, [&]() -> HipResult {
    if (value == nullptr) return hip_error_invalid_value;
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    return attribute_of(attribute, Driver::device_of(device), value);
  });
}

FAKE_EXPORT HipResult hipDeviceGetUuid(HipUuid* uuid, HipDevice device) {
  return answer("hipDeviceGetUuid", Needs::init, [&]() -> HipResult {
    if (uuid == nullptr) return hip_error_invalid_value;
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    const auto bytes = uuid_of(Driver::device_of(device));
    std::memcpy(uuid->bytes, bytes.data(), bytes.size());
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipDeviceGetPCIBusId(char* id, int length, int device) {
  return answer("hipDeviceGetPCIBusId", Needs::init, [&]() -> HipResult {
    if (id == nullptr || length < 13) return hip_error_invalid_value;
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    std::snprintf(id, static_cast<std::size_t>(length), "%s",
                  pci_address_of(Driver::device_of(device)).c_str());
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipDeviceTotalMem(std::size_t* bytes, HipDevice device) {
  return answer("hipDeviceTotalMem", Needs::init, [&]() -> HipResult {
    if (bytes == nullptr) return hip_error_invalid_value;
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    *bytes = settings().device_bytes;
    return hip_success;
  });
}

// Writes what a runtime of 6.x and 7.x writes: 1472 bytes.
FAKE_EXPORT HipResult hipGetDevicePropertiesR0600(HipDeviceProperties600* properties, int device) {
  return answer("hipGetDevicePropertiesR0600", Needs::init, [&]() -> HipResult {
    if (properties == nullptr) return hip_error_invalid_value;
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    std::memset(static_cast<void*>(properties), 0, 1472);
    std::snprintf(properties->name, sizeof properties->name, "Fake HIP GPU %d", Driver::device_of(device));
    const auto uuid = uuid_of(Driver::device_of(device));
    std::memcpy(properties->uuid.bytes, uuid.data(), uuid.size());
    std::snprintf(properties->architecture, sizeof properties->architecture, "gfx90a:sramecc+:xnack-");
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipSetDevice(int device) {
  return answer("hipSetDevice", Needs::init, [&]() -> HipResult {
    if (Driver::device_of(device) < 0) return hip_error_invalid_device;
    this_thread().ordinal = device;
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipGetDevice(int* device) {
  return answer("hipGetDevice", Needs::init, [&]() -> HipResult {
    if (device == nullptr) return hip_error_invalid_value;
    *device = this_thread().ordinal;
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipDeviceSynchronize() {
  return answer("hipDeviceSynchronize", Needs::context,
                [&]() -> HipResult { return driver().current().synchronize(); });
}

FAKE_EXPORT HipResult hipDeviceReset() {
  return answer("hipDeviceReset", Needs::init, [&]() -> HipResult {
    driver().reset_primary(Driver::device_of(this_thread().ordinal));
    return hip_success;
  });
}

FAKE_EXPORT HipResult hipGetLastError() { return std::exchange(this_thread().last_error, hip_success); }

FAKE_EXPORT HipResult hipPeekAtLastError() { return this_thread().last_error; }

FAKE_EXPORT HipResult hipMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return answer("hipMemGetInfo", Needs::context, [&]() -> HipResult {
    if (free_bytes == nullptr || total_bytes == nullptr) return hip_error_invalid_value;
    const std::scoped_lock lock(driver().mutex);
    const std::uint64_t used = Ledger::instance().used_bytes(driver().current().device());
    *total_bytes = settings().device_bytes;
    *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
    return hip_success;
  });
}

}  // namespace penstock::fake
