// SPDX-License-Identifier: Apache-2.0
// Asks the kernel how much of a file's range the page cache holds (cachestat(2), kernel 6.5).
#pragma once

#include "dataplane/core/extent.hpp"

namespace penstock {

class PageResidency {
 public:
  // True when every page of the extent is cached. False when the kernel can't or won't tell: before 6.5,
  // filesystems without the call, and since 6.14 files that the process could not write to and does not own.
  bool wholly_cached(int fd, const Extent& extent);
  bool available() const { return available_; }  // False once the kernel has said that it lacks the call.

 private:
  bool available_ = true;
};

}  // namespace penstock
