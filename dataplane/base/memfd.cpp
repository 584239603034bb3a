// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/memfd.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock {
namespace {

Error file_error(const char* operation) {
  const int native = errno;
  switch (native) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC: return Error{Errc::exhausted, native, operation};
    case EPERM:
    case EACCES: return Error{Errc::denied, native, operation};
    case EBUSY: return Error{Errc::busy, native, operation};
    default: return Error{Errc::invalid, native, operation};
  }
}

Result<UniqueFd> create_unsealed(const char* name, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return file_error("memfd_create");
  if (bytes > INT64_MAX) return Error{Errc::exhausted, EFBIG, "ftruncate"};
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return file_error("ftruncate");
  return fd;
}

}  // namespace

Result<UniqueFd> create_memfd(const char* name, std::uint64_t bytes) {
  UniqueFd fd = TRY(create_unsealed(name, bytes));
  TRY(add_seals(fd.get(), F_SEAL_SHRINK | F_SEAL_GROW));
  return fd;
}

Result<UniqueFd> create_shrinkable_memfd(const char* name, std::uint64_t bytes) {
  UniqueFd fd = TRY(create_unsealed(name, bytes));
  TRY(add_seals(fd.get(), F_SEAL_GROW | F_SEAL_SEAL));
  return fd;
}

Result<> shrink(int fd, std::uint64_t bytes) {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return file_error("ftruncate");
  return {};
}

Result<> add_seals(int fd, int seals) {
  if (::fcntl(fd, F_ADD_SEALS, seals) != 0) return file_error("fcntl(F_ADD_SEALS)");
  return {};
}

Result<int> seals_of(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return file_error("fcntl(F_GET_SEALS)");
  return seals;
}

Result<std::uint64_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return file_error("fstat");
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace penstock
