// SPDX-License-Identifier: Apache-2.0
// Reserving, mapping and unmapping.
#include "tests/fakes/engine/address_space.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/queued_use.hpp"

namespace penstock::fake {
namespace {

constexpr std::uint64_t host_page = 4096;

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

void protect_range(std::uint64_t address, std::uint64_t size) {
  if (::mmap(pointer(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED) {
    die("closing a range: %s", std::strerror(errno));
  }
}

void open_range(std::uint64_t address, std::uint64_t size) {
  if (::mmap(pointer(address), size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    die("leaving a range open: %s", std::strerror(errno));
  }
}

bool is_readable(std::uint64_t address) {
  char byte = 0;
  iovec here{&byte, 1};
  iovec there{pointer(address), 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static AddressSpace* const space = new AddressSpace;
  return *space;
}

CudaResult AddressSpace::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted,
                                 std::uint64_t flags, std::uint64_t* address) {
  if (address == nullptr || size == 0 || size % settings().granularity_minimum != 0 || flags != 0 ||
      wanted % host_page != 0 || (alignment != 0 && !std::has_single_bit(alignment))) {
    return cuda_error_invalid_value;
  }
  const std::uint64_t step = std::max(alignment, settings().granularity_recommended);
  const std::unique_lock lock(mutex_);
  void* memory = ::mmap(nullptr, size + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return cuda_error_out_of_memory;
  const auto from = reinterpret_cast<std::uint64_t>(memory);
  const std::uint64_t start = (from + step - 1) / step * step;
  if (start > from) ::munmap(memory, start - from);
  if (from + step > start) ::munmap(pointer(start + size), from + step - start);
  reservations_[start].size = size;
  *address = start;
  return cuda_success;
}

AddressSpace::Reservation* AddressSpace::find(std::uint64_t address, std::uint64_t size,
                                              std::uint64_t* base) {
  auto found = reservations_.upper_bound(address);
  if (found == reservations_.begin()) return nullptr;
  --found;
  if (address - found->first >= found->second.size || size > found->second.size - (address - found->first)) {
    return nullptr;
  }
  if (base != nullptr) *base = found->first;
  return &found->second;
}

void AddressSpace::require_protected(Reservation& reservation, std::uint64_t address, std::uint64_t size) {
  auto& open = reservation.unprotected;
  for (auto range = open.begin(); range != open.end();) {
    if (range->first >= address + size || range->first + range->second <= address) {
      ++range;
      continue;
    }
    if (is_readable(range->first)) {
      die("the range %#llx was not protected again (mmap PROT_NONE) after its unmap",
          static_cast<unsigned long long>(range->first));
    }
    range = open.erase(range);
  }
}

CudaResult AddressSpace::free(std::uint64_t address, std::uint64_t size) {
  const std::unique_lock lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second.simple) {
    if (settings().quirks.dies_on_unknown_address) die("address free of an unknown range");
    return cuda_error_invalid_value;
  }
  if (found->second.size != size || !found->second.mappings.empty()) return cuda_error_invalid_value;
  require_protected(found->second, address, size);
  ::munmap(pointer(address), size);
  reservations_.erase(found);
  return cuda_success;
}

CudaResult AddressSpace::map(std::uint64_t address, std::uint64_t size, std::uint64_t offset,
                             const Allocation& allocation, std::uint64_t flags) {
  const std::unique_lock lock(mutex_);
  Reservation* reservation = find(address, size);
  const std::uint64_t granularity = settings().granularity_minimum;
  if (reservation == nullptr || reservation->simple || offset != 0 || flags != 0 || size == 0 ||
      size % granularity != 0 || address % granularity != 0 || size > allocation.info.bytes) {
    return cuda_error_invalid_value;
  }
  const auto next = reservation->mappings.lower_bound(address);
  if (next != reservation->mappings.end() && next->first < address + size) return cuda_error_invalid_value;
  if (next != reservation->mappings.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size > address) return cuda_error_invalid_value;
  }
  require_protected(*reservation, address, size);
  if (::mmap(pointer(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED, allocation.fd.get(), 0) ==
      MAP_FAILED) {
    protect_range(address, size);
    return cuda_error_out_of_memory;
  }
  Mapping mapping;
  mapping.size = size;
  mapping.inode = allocation.info.inode;
  mapping.imported_from = allocation.imported_from;
  if (settings().quirks.keep_until_free) {
    mapping.kept = std::make_shared<UniqueFd>(::fcntl(allocation.fd.get(), F_DUPFD_CLOEXEC, 0));
  }
  reservation->mappings.emplace(address, std::move(mapping));
  return cuda_success;
}

std::vector<AddressSpace::Mappings::iterator> AddressSpace::whole(Reservation& reservation,
                                                                  std::uint64_t address, std::uint64_t size) {
  std::vector<Mappings::iterator> found;
  std::uint64_t at = address;
  for (auto each = reservation.mappings.find(address);
       each != reservation.mappings.end() && each->first == at && at < address + size; ++each) {
    found.push_back(each);
    at += each->second.size;
  }
  if (at != address + size) found.clear();
  return found;
}

CudaResult AddressSpace::unmap(std::uint64_t address, std::uint64_t size) {
  if (!settings().sticky_faults && QueuedUse::overlaps(address, size)) {
    die("unmap of %#llx, %llu bytes: work that is queued or runs still uses it",
        static_cast<unsigned long long>(address), static_cast<unsigned long long>(size));
  }
  const std::unique_lock lock(mutex_);
  Reservation* reservation = find(address, size);
  if (reservation == nullptr || reservation->simple) {
    if (settings().quirks.dies_on_unknown_address) die("unmap of an unknown range");
    return cuda_error_invalid_value;
  }
  const auto mappings = whole(*reservation, address, size);
  if (mappings.empty()) return cuda_error_invalid_value;
  if (settings().quirks.unmaps_one && mappings.size() > 1) return cuda_error_invalid_value;
  for (const auto& each : mappings) {
    if (each->second.kept) reservation->kept.push_back(std::move(each->second.kept));
    if (settings().quirks.unprotected_unmap) {
      open_range(each->first, each->second.size);
      reservation->unprotected.emplace(each->first, each->second.size);
    } else {
      protect_range(each->first, each->second.size);
    }
    reservation->mappings.erase(each);
  }
  return cuda_success;
}

CudaResult AddressSpace::allocate(int device, std::uint64_t size, std::uint64_t* address) {
  const CudaMemProperties properties{.type = cuda_mem_allocation_pinned,
                                     .handle_types = 0,
                                     .location = {.type = cuda_mem_location_device, .id = 0},
                                     .win32_meta_data = nullptr,
                                     .compression_type = 0,
                                     .gpu_direct_rdma_capable = 0,
                                     .usage = 0,
                                     .reserved = {}};
  const std::uint64_t granularity = settings().granularity_minimum;
  const std::uint64_t whole_size = (size + granularity - 1) / granularity * granularity;
  if (address == nullptr || size == 0) return cuda_error_invalid_value;
  Handles own;
  Handles::Value handle = 0;
  CudaMemProperties placed = properties;
  const auto& visible = settings().visible;
  placed.location.id = static_cast<int>(std::find(visible.begin(), visible.end(), device) - visible.begin());
  if (const CudaResult bad = own.create(whole_size, placed, 0, &handle)) return bad;
  if (const CudaResult bad = reserve(whole_size, 0, 0, 0, address)) return bad;
  if (const CudaResult bad = map(*address, whole_size, 0, *own.find(handle, "allocate"), 0)) return bad;
  const std::unique_lock lock(mutex_);
  Reservation& reservation = reservations_.at(*address);
  reservation.simple = true;
  reservation.mappings.begin()->second.access[static_cast<std::size_t>(device)] = Access::read_write;
  ::mprotect(pointer(*address), whole_size, PROT_READ | PROT_WRITE);
  return cuda_success;
}

CudaResult AddressSpace::release(std::uint64_t address) {
  const std::unique_lock lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || !found->second.simple) {
    die("free of %#llx, which was not allocated", static_cast<unsigned long long>(address));
  }
  ::munmap(pointer(address), found->second.size);
  reservations_.erase(found);
  return cuda_success;
}

}  // namespace penstock::fake
