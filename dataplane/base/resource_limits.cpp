// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/resource_limits.hpp"

#include <cerrno>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock {
namespace {

std::uint64_t without_infinity(rlim_t value) { return value == RLIM_INFINITY ? no_limit : value; }

}  // namespace

Result<ResourceLimit> locked_memory_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return Error{Errc::invalid, errno, "getrlimit"};
  return ResourceLimit{.soft = without_infinity(limit.rlim_cur), .hard = without_infinity(limit.rlim_max)};
}

Result<ResourceLimit> open_files_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Error{Errc::invalid, errno, "getrlimit"};
  return ResourceLimit{.soft = without_infinity(limit.rlim_cur), .hard = without_infinity(limit.rlim_max)};
}

std::uint64_t open_descriptors() {
  struct stat folder {};
  if (::stat("/proc/self/fd", &folder) != 0) return 0;
  return static_cast<std::uint64_t>(folder.st_size);
}

Result<std::uint64_t> raise_open_files_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Error{Errc::invalid, errno, "getrlimit"};
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return Error{Errc::denied, errno, "setrlimit"};
  return without_infinity(limit.rlim_cur);
}

bool may_lock_any_memory() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  // glibc has no wrapper, and libcap would be a library for one bit.
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  return (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

}  // namespace penstock
