// SPDX-License-Identifier: Apache-2.0
// AmdSmi: the memory of AMD's GPUs by way of libamd_smi, for places where the kernel's files are hidden.
#pragma once

#include <vector>

#include "dataplane/device/usage/amdsmi_abi.h"
#include "dataplane/device/usage/device_usage.hpp"

namespace penstock {

class AmdSmi {
 public:
  // Errc::not_found without the library. Never unloaded.
  static Result<AmdSmi> open(const char* library);
  AmdSmi(AmdSmi&& other) noexcept;
  AmdSmi& operator=(AmdSmi&&) = delete;
  ~AmdSmi();

  // Total and used bytes of each GPU; of processes it knows nothing.
  Result<std::vector<DeviceUsage>> read();

 private:
  struct Table {
    amdsmi_status_t (*init)(uint64_t) = nullptr;
    amdsmi_status_t (*shut_down)() = nullptr;
    amdsmi_status_t (*sockets)(uint32_t*, amdsmi_socket_t*) = nullptr;
    amdsmi_status_t (*gpus)(amdsmi_socket_t, uint32_t*, amdsmi_gpu_t*) = nullptr;
    amdsmi_status_t (*address)(amdsmi_gpu_t, amdsmi_address_t*) = nullptr;
    amdsmi_status_t (*total)(amdsmi_gpu_t, int, uint64_t*) = nullptr;
    amdsmi_status_t (*used)(amdsmi_gpu_t, int, uint64_t*) = nullptr;
  };

  explicit AmdSmi(const Table& table) : table_(table) {}
  DeviceUsage read_gpu(amdsmi_gpu_t gpu) const;

  const Table table_;
  bool is_open_ = true;
};

}  // namespace penstock
