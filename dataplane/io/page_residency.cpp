// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/page_residency.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/io/cached_bytes.hpp"

namespace penstock {
namespace {

constexpr long cachestat_number = 451;  // The same on all architectures; this libc has no name for it.

// The kernel's struct cachestat_range and struct cachestat.
struct CacheRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct CacheStatus {
  std::uint64_t cached_pages;
  std::uint64_t dirty_pages;
  std::uint64_t writeback_pages;
  std::uint64_t evicted_pages;
  std::uint64_t recently_evicted_pages;
};

}  // namespace

bool PageResidency::wholly_cached(int fd, const Extent& extent) {
  if (!available_ || extent.length == 0) return false;
  CacheRange range{.offset = extent.offset, .length = extent.length};
  CacheStatus status{};
  if (::syscall(cachestat_number, fd, &range, &status, 0) != 0) {
    if (errno == ENOSYS) available_ = false;
    return false;
  }
  const std::uint64_t first = round_down(extent.offset, small_page_bytes);
  return status.cached_pages >= divide_up(extent.end() - first, small_page_bytes);
}

std::optional<std::uint64_t> cached_bytes(int fd, const Extent& extent) {
  if (extent.length == 0) return 0;
  CacheRange range{.offset = extent.offset, .length = extent.length};
  CacheStatus status{};
  if (::syscall(cachestat_number, fd, &range, &status, 0) != 0) return std::nullopt;
  return status.cached_pages * small_page_bytes;
}

}  // namespace penstock
