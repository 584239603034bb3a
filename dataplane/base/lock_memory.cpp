// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/lock_memory.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace penstock {

Result<> lock_memory(const Mapping& mapping) {
  if (::mlock(mapping.data(), mapping.size()) != 0) return Error{Errc::exhausted, errno, "mlock"};
  return {};
}

}  // namespace penstock
