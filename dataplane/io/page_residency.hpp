// SPDX-License-Identifier: Apache-2.0
// Asks the kernel whether the page cache holds a range of one file.
#pragma once

#include "dataplane/base/mapping.hpp"
#include "dataplane/base/page_cache_query.hpp"
#include "dataplane/core/extent.hpp"

namespace penstock {

class PageResidency {
 public:
  PageResidency() = default;
  // How this file of that many bytes is asked for is decided here, once: may block where the file system's server does.
  // `fd` must stay open as long as this object asks.
  static PageResidency of(int fd, std::uint64_t file_bytes);

  // True when every page of the extent is cached. False when the kernel won't tell: of files that the process could not
  // write to and does not own. Never blocks on the file.
  bool wholly_cached(const Extent& extent) const;
  bool available() const { return query_.way() == PageCacheQuery::Way::cachestat || mapping_; }

 private:
  PageCacheQuery query_;
  Mapping
      mapping_;  // For mincore: of the whole file, and never touched. Making one for each question might block.
};

}  // namespace penstock
