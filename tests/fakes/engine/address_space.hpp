// SPDX-License-Identifier: Apache-2.0
// Reserved address ranges and what is mapped in them. Device memory lies at its device address in this process, without
// any protection bit until access is set, so that a stray touch kills the process on the spot.
//
// Calls change it under the lock alone; work on streams reads it under the shared lock, through `with_access`. No
// user's code runs under either.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/allocation.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {

enum class Access : std::uint8_t { none, read, read_write };

class AddressSpace {
 public:
  static AddressSpace& instance();

  CudaResult reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted, std::uint64_t flags,
                     std::uint64_t* address);
  CudaResult free(std::uint64_t address, std::uint64_t size);
  CudaResult map(std::uint64_t address, std::uint64_t size, std::uint64_t offset,
                 const Allocation& allocation, std::uint64_t flags);
  CudaResult unmap(std::uint64_t address, std::uint64_t size);
  CudaResult set_access(std::uint64_t address, std::uint64_t size, const CudaMemAccess* access,
                        std::uint64_t count);
  CudaResult get_access(std::uint64_t address, const CudaMemLocation& location, unsigned long long* flags);

  // Memory of the simple kind (cuMemAlloc): reserved, mapped and accessible at once.
  CudaResult allocate(int device, std::uint64_t size, std::uint64_t* address);
  CudaResult release(std::uint64_t address);

  // Runs `body` while [address, address + size) is known to be accessible for the device, which keeps it so. Otherwise
  // returns why not, in words. Host memory that is registered is accessible too.
  const char* with_access(int device, std::uint64_t address, std::uint64_t size, Access wanted,
                          const std::function<void(std::byte*)>& body);
  // Zeroes whole pages by giving them back, so that a large fake stays sparse. REQUIRES: inside with_access.
  static void fill(std::byte* memory, std::uint64_t size, unsigned char value);

  std::uint64_t mapping_count();
  std::uint64_t reserved_bytes();

 private:
  struct Mapping {
    std::uint64_t size = 0;
    std::array<Access, max_devices> access{};
    std::uint64_t inode = 0;
    int imported_from = -1;
    std::shared_ptr<UniqueFd> kept;  // What the runtime holds on to until the range is freed.
  };
  struct Reservation {
    std::uint64_t size = 0;
    bool simple = false;
    std::map<std::uint64_t, Mapping> mappings;
    std::map<std::uint64_t, std::uint64_t> unprotected;  // Left open by unmap; the caller must protect them.
    std::vector<std::shared_ptr<UniqueFd>> kept;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  Reservation* find(std::uint64_t address, std::uint64_t size, std::uint64_t* base = nullptr);
  // The mappings that make up exactly the range; empty when the range is no sum of whole mappings.
  static std::vector<Mappings::iterator> whole(Reservation& reservation, std::uint64_t address,
                                               std::uint64_t size);
  static void require_protected(Reservation& reservation, std::uint64_t address, std::uint64_t size);
  const char* refusal(int device, std::uint64_t address, std::uint64_t size, Access wanted);

  std::shared_mutex mutex_;
  std::map<std::uint64_t, Reservation> reservations_;
};

}  // namespace penstock::fake
