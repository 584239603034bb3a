// SPDX-License-Identifier: Apache-2.0
// Who may touch which address: the access calls, and the check of each piece of work before it runs.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "tests/fakes/engine/address_space.hpp"
#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/host_memory.hpp"

namespace penstock::fake {
namespace {

int device_of(const CudaMemLocation& location) {
  const auto& visible = settings().visible;
  if (location.type != cuda_mem_location_device || location.id < 0 ||
      location.id >= static_cast<int>(visible.size())) {
    return -1;
  }
  return visible[static_cast<std::size_t>(location.id)];
}

int protection(Access access) {
  if (access == Access::none) return PROT_NONE;
  return access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
}

}  // namespace

CudaResult AddressSpace::set_access(std::uint64_t address, std::uint64_t size, const CudaMemAccess* access,
                                    std::uint64_t count) {
  if (access == nullptr || count == 0 || size == 0) return cuda_error_invalid_value;
  const Quirks& quirks = settings().quirks;
  if (quirks.coarse_access &&
      (size % settings().granularity_recommended != 0 || address % settings().granularity_recommended != 0)) {
    return cuda_error_invalid_value;
  }
  const std::unique_lock lock(mutex_);
  Reservation* reservation = find(address, size);
  if (reservation == nullptr || reservation->simple) return cuda_error_invalid_value;
  const auto mappings = whole(*reservation, address, size);
  if (mappings.empty()) return cuda_error_invalid_value;
  for (std::uint64_t i = 0; i < count; ++i) {
    const int device = device_of(access[i].location);
    if (device < 0) return cuda_error_invalid_device;
    const int flags = access[i].flags;
    if (flags != cuda_mem_access_none && flags != cuda_mem_access_read &&
        flags != cuda_mem_access_read_write) {
      return cuda_error_invalid_value;
    }
    if (flags == cuda_mem_access_read && quirks.no_sharing) return cuda_error_invalid_value;
    for (const auto& each : mappings) {
      if (quirks.deferred_import && each->second.imported_from >= 0) {
        const auto info = frame_of(each->second.imported_from);
        if (!info || info->inode != each->second.inode) return cuda_error_invalid_value;
      }
      each->second.access[static_cast<std::size_t>(device)] = flags == cuda_mem_access_none ? Access::none
                                                              : flags == cuda_mem_access_read
                                                                  ? Access::read
                                                                  : Access::read_write;
    }
  }
  for (const auto& each : mappings) {
    const Access most = *std::max_element(each->second.access.begin(), each->second.access.end());
    if (::mprotect(reinterpret_cast<void*>(each->first), each->second.size, protection(most)) != 0) {
      die("setting access: %s", std::strerror(errno));
    }
  }
  return cuda_success;
}

CudaResult AddressSpace::get_access(std::uint64_t address, const CudaMemLocation& location,
                                    unsigned long long* flags) {
  const int device = device_of(location);
  if (flags == nullptr) return cuda_error_invalid_value;
  if (device < 0) return cuda_error_invalid_device;
  const std::shared_lock lock(mutex_);
  Reservation* reservation = find(address, 1);
  if (reservation == nullptr) return cuda_error_invalid_value;
  auto found = reservation->mappings.upper_bound(address);
  if (found == reservation->mappings.begin()) return cuda_error_invalid_value;
  --found;
  if (address - found->first >= found->second.size) return cuda_error_invalid_value;
  const Access access = found->second.access[static_cast<std::size_t>(device)];
  *flags = access == Access::none   ? cuda_mem_access_none
           : access == Access::read ? cuda_mem_access_read
                                    : cuda_mem_access_read_write;
  return cuda_success;
}

const char* AddressSpace::refusal(int device, std::uint64_t address, std::uint64_t size, Access wanted) {
  Reservation* reservation = find(address, size);
  if (reservation == nullptr) {
    return HostMemory::instance().is_registered(address, size) ? nullptr : "that is no device memory";
  }
  auto each = reservation->mappings.upper_bound(address);
  if (each != reservation->mappings.begin()) --each;
  std::uint64_t at = address;
  for (; at < address + size; ++each) {
    if (each == reservation->mappings.end() || at < each->first || at >= each->first + each->second.size) {
      return "nothing is mapped there";
    }
    const Access granted = each->second.access[static_cast<std::size_t>(device)];
    if (granted == Access::none) return "no access was set for this device";
    if (wanted == Access::read_write && granted == Access::read) return "it is mapped read-only";
    at = each->first + each->second.size;
  }
  return nullptr;
}

const char* AddressSpace::with_access(int device, std::uint64_t address, std::uint64_t size, Access wanted,
                                      const std::function<void(std::byte*)>& body) {
  const std::shared_lock lock(mutex_);
  if (const char* why = refusal(device, address, size, wanted)) return why;
  body(reinterpret_cast<std::byte*>(address));
  return nullptr;
}

void AddressSpace::fill(std::byte* memory, std::uint64_t size, unsigned char value) {
  constexpr std::uint64_t page = 4096;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  const std::uint64_t start = (address + page - 1) / page * page;
  const std::uint64_t end = (address + size) / page * page;
  if (value == 0 && end > start && ::madvise(reinterpret_cast<void*>(start), end - start, MADV_REMOVE) == 0) {
    std::memset(memory, 0, start - address);
    std::memset(reinterpret_cast<void*>(end), 0, address + size - end);
  } else {
    std::memset(memory, value, size);
  }
}

std::uint64_t AddressSpace::mapping_count() {
  const std::shared_lock lock(mutex_);
  std::uint64_t count = 0;
  for (const auto& [address, reservation] : reservations_) count += reservation.mappings.size();
  return count;
}

std::uint64_t AddressSpace::reserved_bytes() {
  const std::shared_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [address, reservation] : reservations_) bytes += reservation.size;
  return bytes;
}

}  // namespace penstock::fake
