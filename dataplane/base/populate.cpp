// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/populate.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "dataplane/base/check.hpp"

// Linux 6.1 and 5.14; the C library of Debian 12 does not know the first.
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace penstock {
namespace {

// Rewriting a byte makes its page present and leaves the content as it is.
void touch(std::span<std::byte> bytes, std::uint64_t step) {
  for (std::uint64_t at = 0; at < bytes.size(); at += step) {
    volatile std::byte& byte = bytes[at];
    byte = static_cast<std::byte>(byte);
  }
}

}  // namespace

Result<> populate_huge(const Mapping& mapping) {
  CHECK(reinterpret_cast<std::uintptr_t>(mapping.data()) % huge_page_bytes == 0);
  CHECK(mapping.size() % huge_page_bytes == 0);
  // The kernel refuses to collapse a range of which no page is present.
  touch(mapping.bytes(), huge_page_bytes);
  return mapping.advise(MADV_COLLAPSE);
}

Result<> populate_small(const Mapping& mapping) {
  const Result<> populated = mapping.advise(MADV_POPULATE_WRITE);
  if (populated || populated.error().native != EINVAL) return populated;
  touch(mapping.bytes(), small_page_bytes);  // A kernel before 5.14.
  return {};
}

Result<> exclude_from_dumps(const Mapping& mapping) { return mapping.advise(MADV_DONTDUMP); }

}  // namespace penstock
