// SPDX-License-Identifier: Apache-2.0
// Start-up, errors, devices. Signatures: dataplane/device/cuda/cuda_abi.h.
#include <errno.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/fakes/cuda/entry.hpp"
#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {

const FrontEnd front_end{.vendor = Vendor::cuda, .name = "cuda", .default_version = 12'040};

namespace {

struct ErrorText {
  CudaResult code;
  const char* name;
  const char* text;
};
constexpr ErrorText error_texts[] = {
    {cuda_success, "CUDA_SUCCESS", "no error"},
    {cuda_error_invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda_error_out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {cuda_error_not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {cuda_error_deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {cuda_error_stub_library, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {cuda_error_device_unavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cuda_error_no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {cuda_error_invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {cuda_error_invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {cuda_error_invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {cuda_error_no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {cuda_error_not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {cuda_error_not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {cuda_error_illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {cuda_error_launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {cuda_error_not_permitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {cuda_error_not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {cuda_error_system_driver_mismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {cuda_error_unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CudaResult attribute_of(int attribute, int device, int* value) {
  const bool vmm = !settings().no_vmm;
  switch (attribute) {
    case cuda_attribute_max_threads_per_block: *value = 1024; break;
    case cuda_attribute_multiprocessor_count: *value = 8; break;
    case cuda_attribute_integrated: *value = settings().integrated; break;
    case cuda_attribute_compute_mode: *value = settings().compute_mode; break;
    case cuda_attribute_pci_bus_id: *value = 0x81 + device; break;
    case cuda_attribute_pci_device_id: *value = 0; break;
    case cuda_attribute_pci_domain_id: *value = 0; break;
    case cuda_attribute_async_engine_count: *value = 2; break;
    case cuda_attribute_unified_addressing: *value = 1; break;
    case cuda_attribute_compute_capability_major: *value = 8; break;
    case cuda_attribute_compute_capability_minor: *value = 9; break;
    case cuda_attribute_host_register_supported: *value = 1; break;
    case cuda_attribute_virtual_memory_management_supported: *value = vmm; break;
    case cuda_attribute_posix_file_descriptor_supported: *value = vmm; break;
    default: return cuda_error_invalid_value;
  }
  return cuda_success;
}

}  // namespace

namespace {

// A driver joins the MPS server that it finds as it starts, and never says so.
void refuse_client_of_mps() {
  const std::string_view program = ::program_invocation_short_name;
  if (program != "penstockd" && program != "penstock-writer") return;
  const char* place = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  if (place == nullptr) place = "/tmp/nvidia-mps";
  std::error_code unknown;
  // The place of a server that may be started at any time counts too.
  if (std::string_view(place) == "/tmp/nvidia-mps" || std::filesystem::exists(place, unknown))
    die("cuInit: %s would become a client of the MPS server in %s", ::program_invocation_short_name, place);
}

}  // namespace

FAKE_EXPORT CudaResult cuInit(unsigned flags) {
  refuse_client_of_mps();
  return answer("cuInit", Needs::nothing, [&]() -> CudaResult {
    return flags != 0 ? CudaResult{cuda_error_invalid_value} : driver().init();
  });
}

FAKE_EXPORT CudaResult cuDriverGetVersion(int* version) {
  return answer("cuDriverGetVersion", Needs::nothing, [&]() -> CudaResult {
    if (version == nullptr) return cuda_error_invalid_value;
    *version = settings().version;
    return cuda_success;
  });
}

// Both answer while everything else is broken.
FAKE_EXPORT CudaResult cuGetErrorName(CudaResult error, const char** name) {
  const auto* found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                   [&](const ErrorText& each) { return each.code == error; });
  *name = found == std::end(error_texts) ? nullptr : found->name;
  return *name == nullptr ? cuda_error_invalid_value : cuda_success;
}

FAKE_EXPORT CudaResult cuGetErrorString(CudaResult error, const char** text) {
  const auto* found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                   [&](const ErrorText& each) { return each.code == error; });
  *text = found == std::end(error_texts) ? nullptr : found->text;
  return *text == nullptr ? cuda_error_invalid_value : cuda_success;
}

FAKE_EXPORT CudaResult cuDeviceGetCount(int* count) {
  return answer("cuDeviceGetCount", Needs::init, [&]() -> CudaResult {
    if (count == nullptr) return cuda_error_invalid_value;
    *count = static_cast<int>(settings().visible.size());
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDeviceGet(CudaDevice* device, int ordinal) {
  return answer("cuDeviceGet", Needs::init, [&]() -> CudaResult {
    if (device == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(ordinal) < 0) return cuda_error_invalid_device;
    *device = ordinal;
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDeviceGetName(char* name, int length, CudaDevice device) {
  return answer("cuDeviceGetName", Needs::init, [&]() -> CudaResult {
    if (name == nullptr || length <= 0) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    std::snprintf(name, static_cast<std::size_t>(length), "Fake CUDA GPU %d", Driver::device_of(device));
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDeviceGetAttribute(int* value, int attribute, CudaDevice device) {
  return answer("cuDeviceGetAttribute", Needs::init, [&]() -> CudaResult {
    if (value == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    return attribute_of(attribute, Driver::device_of(device), value);
  });
}

FAKE_EXPORT CudaResult cuDeviceGetUuid_v2(CudaUuid* uuid, CudaDevice device) {
  return answer("cuDeviceGetUuid", Needs::init, [&]() -> CudaResult {
    if (uuid == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    const auto bytes = uuid_of(Driver::device_of(device));
    std::copy(bytes.begin(), bytes.end(), uuid->bytes);
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDeviceGetUuid(CudaUuid* uuid, CudaDevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

FAKE_EXPORT CudaResult cuDeviceGetPCIBusId(char* id, int length, CudaDevice device) {
  return answer("cuDeviceGetPCIBusId", Needs::init, [&]() -> CudaResult {
    if (id == nullptr || length < 13) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    std::snprintf(id, static_cast<std::size_t>(length), "%s",
                  pci_address_of(Driver::device_of(device)).c_str());
    return cuda_success;
  });
}

FAKE_EXPORT CudaResult cuDeviceTotalMem_v2(std::size_t* bytes, CudaDevice device) {
  return answer("cuDeviceTotalMem", Needs::init, [&]() -> CudaResult {
    if (bytes == nullptr) return cuda_error_invalid_value;
    if (Driver::device_of(device) < 0) return cuda_error_invalid_device;
    *bytes = settings().device_bytes;
    return cuda_success;
  });
}

}  // namespace penstock::fake
