// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/control/counted_allocations.hpp"

#include <cstdlib>
#include <new>

#include <poll.h>

namespace {
// Of the thread that counts; others may allocate as they like.
thread_local int until_readable = -1;
thread_local int count = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  pollfd wait{.fd = until_readable, .events = POLLIN, .revents = 0};
  if (until_readable >= 0 && ::poll(&wait, 1, 0) == 0) ++count;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace penstock::test {

void count_allocations_until_readable(int fd) {
  until_readable = fd;
  if (fd >= 0) count = 0;
}

int counted_allocations() { return count; }

}  // namespace penstock::test
