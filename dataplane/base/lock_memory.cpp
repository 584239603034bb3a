// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/lock_memory.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace penstock {

Result<> lock_memory(const Mapping& mapping) {
  if (::mlock(mapping.data(), mapping.size()) != 0) return Error{Errc::exhausted, errno, "mlock"};
  return {};
}

Result<> lock_when_touched(std::uintptr_t begin, std::uintptr_t end) {
  void* const start =
      reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr): from a list of mappings
  if (::mlock2(start, end - begin, MLOCK_ONFAULT) != 0) return Error{Errc::exhausted, errno, "mlock2"};
  return {};
}

}  // namespace penstock
