// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/lock_memory.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>

#include "dataplane/base/check.hpp"

namespace penstock {

Result<> lock_memory(const Mapping& mapping) { return lock_memory(mapping, 0, mapping.size()); }

Result<> lock_memory(const Mapping& mapping, std::uint64_t offset, std::uint64_t bytes) {
  CHECK(offset <= mapping.size() && bytes <= mapping.size() - offset);
  if (::mlock(mapping.data() + offset, bytes) != 0) return Error{Errc::exhausted, errno, "mlock"};
  return {};
}

Result<> lock_when_touched(std::uintptr_t begin, std::uintptr_t end) {
  void* const start =
      reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr): from a list of mappings
  if (::mlock2(start, end - begin, MLOCK_ONFAULT) != 0) return Error{Errc::exhausted, errno, "mlock2"};
  return {};
}

namespace {

constexpr std::size_t prefaulted_bytes = 64 * 1024;

}  // namespace

[[gnu::noinline]] void prefault_stack() {
  std::array<volatile char, prefaulted_bytes>
      below;  // NOLINT(cppcoreguidelines-pro-type-member-init): touched
  for (std::size_t at = 0; at < below.size(); at += 4096) below[at] = 0;
}

Result<> lock_own_stack() {
  prefault_stack();
  pthread_attr_t attributes;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  if (const int error = ::pthread_getattr_np(::pthread_self(), &attributes); error != 0)
    return Error{Errc::io, error, "ask for a thread's stack"};
  ::pthread_attr_getstack(&attributes, &lowest, &bytes);
  ::pthread_attr_destroy(&attributes);
  const auto begin = reinterpret_cast<std::uintptr_t>(lowest);
  if (lock_when_touched(begin, begin + bytes)) return {};
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return lock_when_touched((here - prefaulted_bytes) & ~std::uintptr_t{4095}, here);
}

}  // namespace penstock
