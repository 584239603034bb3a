// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/page_cache_query.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "dataplane/base/mapping.hpp"

namespace penstock {
namespace {

constexpr long cachestat_number = 451;  // The same on all architectures; this libc has no name for it.

struct CachestatRange {
  std::uint64_t offset, length;
};
struct Cachestat {
  std::uint64_t cached, dirty, written_back, evicted, recently_evicted;
};

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::optional<std::uint64_t> ask_cachestat(int fd, std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return 0;  // The kernel takes 0 for all the rest.
  CachestatRange range{offset, length};
  Cachestat answer{};
  if (::syscall(cachestat_number, fd, &range, &answer, 0) != 0) return std::nullopt;
  return answer.cached * page_bytes();
}

// The kernel says "all resident" of a file that the asker neither owns nor may write.
bool mincore_tells_the_truth(int fd, bool owns_files) {
  struct stat status {};
  if (owns_files || ::fstat(fd, &status) != 0) return owns_files;
  return status.st_uid == ::geteuid() || ::faccessat(fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

// Pages that one look at mincore tells of.
constexpr std::uint64_t pages_a_look = 16384;

std::optional<std::uint64_t> ask_mincore(int fd, std::uint64_t offset, std::uint64_t length) {
  const Result<Mapping> mapping = Mapping::shared(fd, length, Access::read, offset);
  return mapping ? resident_bytes_of_mapping(mapping->data(), length) : std::nullopt;
}

}  // namespace

PageCacheQuery PageCacheQuery::choose(int fd, bool owns_files) {
  struct statfs system {};
  // Overlayfs keeps the pages at the inode below, and cachestat counts those of its own, which has none.
  const bool overlay = ::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
  const char* why = "overlayfs: cachestat(2) sees none of its pages";
  if (!overlay) {
    if (ask_cachestat(fd, 0, 1)) return {fd, Way::cachestat, ""};
    why = errno == ENOSYS ? "the kernel has no cachestat(2)" : "cachestat(2) is refused";
  }
  if (mincore_tells_the_truth(fd, owns_files)) return {fd, Way::mincore, why};
  return {fd, Way::none, "the file is another's and may not be written: its residency is not told"};
}

std::optional<std::uint64_t> PageCacheQuery::resident_bytes(std::uint64_t offset,
                                                            std::uint64_t length) const {
  switch (way_) {
    case Way::cachestat: return ask_cachestat(fd_, offset, length);
    case Way::mincore: return ask_mincore(fd_, offset, length);
    case Way::none: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> resident_bytes_of_mapping(std::byte* at, std::uint64_t length) {
  std::array<unsigned char, pages_a_look> present;
  const std::uint64_t step = pages_a_look * page_bytes();
  std::uint64_t pages = 0;
  for (std::uint64_t done = 0; done < length; done += step) {
    const std::uint64_t part = std::min(step, length - done);
    if (::syscall(SYS_mincore, at + done, part, present.data()) != 0) return std::nullopt;
    const auto count = static_cast<std::ptrdiff_t>((part + page_bytes() - 1) / page_bytes());
    pages += static_cast<std::uint64_t>(std::count_if(present.begin(), present.begin() + count,
                                                      [](unsigned char c) { return (c & 1) != 0; }));
  }
  return pages * page_bytes();
}

bool owns_all_files() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2]{};
  return ::syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_FOWNER & 1) != 0;
}

}  // namespace penstock
