// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/host_memory.hpp"

#include <sys/mman.h>

#include "tests/fakes/engine/die.hpp"

namespace penstock::fake {

HostMemory& HostMemory::instance() {
  static HostMemory* const memory = new HostMemory;
  return *memory;
}

std::map<std::uint64_t, HostMemory::Range>::iterator HostMemory::overlapping(std::uint64_t address,
                                                                             std::uint64_t size) {
  auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first < address + size) return next;
  if (next == ranges_.begin()) return ranges_.end();
  --next;
  return next->first + next->second.size > address ? next : ranges_.end();
}

CudaResult HostMemory::allocate(std::uint64_t size, void** memory) {
  if (memory == nullptr || size == 0) return cuda_error_invalid_value;
  void* made =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return cuda_error_out_of_memory;
  const std::scoped_lock lock(mutex_);
  ranges_[reinterpret_cast<std::uint64_t>(made)] = {.size = size, .allocated = true};
  *memory = made;
  return cuda_success;
}

CudaResult HostMemory::free(void* memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uint64_t>(memory));
  if (found == ranges_.end() || !found->second.allocated)
    die("free of host memory %p, which was not allocated", memory);
  ::munmap(memory, found->second.size);
  ranges_.erase(found);
  return cuda_success;
}

CudaResult HostMemory::add(const void* memory, std::uint64_t size) {
  if (memory == nullptr || size == 0) return cuda_error_invalid_value;
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  const std::scoped_lock lock(mutex_);
  if (overlapping(address, size) != ranges_.end()) return cuda_error_host_memory_already_registered;
  ranges_[address] = {.size = size, .allocated = false};
  return cuda_success;
}

CudaResult HostMemory::remove(const void* memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uint64_t>(memory));
  if (found == ranges_.end() || found->second.allocated) return cuda_error_host_memory_not_registered;
  ranges_.erase(found);
  return cuda_success;
}

bool HostMemory::is_registered(std::uint64_t address, std::uint64_t size) {
  const std::scoped_lock lock(mutex_);
  const auto found = overlapping(address, 1);
  return found != ranges_.end() && address + size <= found->first + found->second.size;
}

std::uint64_t HostMemory::registered_bytes() {
  const std::scoped_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [address, range] : ranges_) bytes += range.size;
  return bytes;
}

}  // namespace penstock::fake
