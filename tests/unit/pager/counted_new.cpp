// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pager/counted_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> counted{0};
}  // namespace

namespace penstock::test {
std::uint64_t allocations() { return counted.load(); }
}  // namespace penstock::test

void* operator new(std::size_t bytes) {
  ++counted;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
