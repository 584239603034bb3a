// SPDX-License-Identifier: Apache-2.0
// Host memory that the device may reach: allocated by the driver, or the caller's own, registered.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "dataplane/device/cuda/cuda_abi.h"

namespace penstock::fake {

class HostMemory {
 public:
  static HostMemory& instance();

  CudaResult allocate(std::uint64_t size, void** memory);
  CudaResult free(void* memory);
  CudaResult add(const void* memory, std::uint64_t size);
  CudaResult remove(const void* memory);
  bool is_registered(std::uint64_t address, std::uint64_t size);
  std::uint64_t registered_bytes();

 private:
  struct Range {
    std::uint64_t size = 0;
    bool allocated = false;
  };
  std::map<std::uint64_t, Range>::iterator overlapping(std::uint64_t address, std::uint64_t size);

  std::mutex mutex_;
  std::map<std::uint64_t, Range> ranges_;
};

}  // namespace penstock::fake
