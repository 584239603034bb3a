// SPDX-License-Identifier: Apache-2.0
// PageCacheQuery: asks the kernel how much of a file the page cache holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace penstock {

class PageCacheQuery {
 public:
  enum class Way : std::uint8_t { none, mincore, cachestat };

  PageCacheQuery() = default;
  // Which way serves this file: cachestat(2), else mincore, else none. `owns_files`: the process holds CAP_FOWNER. `fd`
  // must stay open as long as this object asks. May block where the file system's server does.
  static PageCacheQuery choose(int fd, bool owns_files);

  Way way() const { return way_; }
  const char* why() const { return why_; }  // Why not cachestat; "" when it is.

  // Bytes resident of [offset, offset + length), in whole pages; a large folio may have some beyond the file's end.
  // Nothing when the kernel won't say. Maps the range for mincore, which some network file systems ask their server
  // about. REQUIRES: offset is on a page boundary.
  std::optional<std::uint64_t> resident_bytes(std::uint64_t offset, std::uint64_t length) const;

 private:
  PageCacheQuery(int fd, Way way, const char* why) : fd_(fd), way_(way), why_(why) {}

  int fd_ = -1;
  Way way_ = Way::none;
  const char* why_ = "nobody chose";
};

// Of a mapping of the file, whole pages in whose range are resident, by mincore. Touches nothing, asks no server.
// REQUIRES: `at` is on a page boundary, and the process may ask about the file.
std::optional<std::uint64_t> resident_bytes_of_mapping(std::byte* at, std::uint64_t length);

// Whether this process holds CAP_FOWNER.
bool owns_all_files();

}  // namespace penstock
