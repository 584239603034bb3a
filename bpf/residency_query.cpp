// SPDX-License-Identifier: Apache-2.0
#include "bpf/residency_query.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
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
bool mincore_tells_the_truth(int fd, const KernelFacts& facts) {
  struct stat status {};
  if (facts.owns_files || ::fstat(fd, &status) != 0) return facts.owns_files;
  return status.st_uid == ::geteuid() || ::faccessat(fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

// A gigabyte of address space at a time, so that a large file needs no large vector.
std::optional<std::uint64_t> ask_mincore(int fd, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t end = offset + length;
  std::array<unsigned char, 16384> present;
  const std::uint64_t step = present.size() * page_bytes();
  std::uint64_t pages = 0;
  for (std::uint64_t at = offset; at < end; at += step) {
    const std::uint64_t part = std::min(step, end - at);
    const Result<Mapping> mapping = Mapping::shared(fd, part, Access::read, at);
    if (!mapping) return std::nullopt;
    if (::syscall(SYS_mincore, mapping->data(), part, present.data()) != 0) return std::nullopt;
    const auto count = static_cast<std::ptrdiff_t>((part + page_bytes() - 1) / page_bytes());
    pages += static_cast<std::uint64_t>(std::count_if(present.begin(), present.begin() + count,
                                                      [](unsigned char c) { return (c & 1) != 0; }));
  }
  return pages * page_bytes();
}

}  // namespace

ResidencyQuery ResidencyQuery::choose(int fd, const KernelFacts& facts) {
  struct statfs system {};
  // Overlayfs keeps the pages at the inode below, and cachestat counts those of its own, which has none.
  const bool overlay = ::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
  const char* why = "overlayfs: cachestat(2) sees none of its pages";
  if (!overlay) {
    if (ask_cachestat(fd, 0, 1)) return {fd, ProbeLevel::cachestat, ""};
    why = errno == ENOSYS ? "the kernel has no cachestat(2)" : "cachestat(2) is refused";
  }
  if (mincore_tells_the_truth(fd, facts)) return {fd, ProbeLevel::mincore, why};
  return {fd, ProbeLevel::none, "the file is another's and may not be written: its residency is not told"};
}

std::optional<std::uint64_t> ResidencyQuery::resident_bytes(std::uint64_t offset,
                                                            std::uint64_t length) const {
  switch (level_) {
    case ProbeLevel::cachestat: return ask_cachestat(fd_, offset, length);
    case ProbeLevel::mincore: return ask_mincore(fd_, offset, length);
    default: return std::nullopt;
  }
}

}  // namespace penstock
