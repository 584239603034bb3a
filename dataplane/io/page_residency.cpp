// SPDX-License-Identifier: Apache-2.0
#include "dataplane/io/page_residency.hpp"

#include "dataplane/base/units.hpp"

namespace penstock {

PageResidency PageResidency::of(int fd, std::uint64_t file_bytes) {
  PageResidency residency;
  residency.query_ = PageCacheQuery::choose(fd, owns_all_files());
  if (residency.query_.way() != PageCacheQuery::Way::mincore || file_bytes == 0) return residency;
  // A file that can't be mapped is one that the kernel does not tell about.
  Result<Mapping> mapping = Mapping::shared(fd, round_up(file_bytes, small_page_bytes), Access::read);
  if (mapping) residency.mapping_ = *std::move(mapping);
  return residency;
}

bool PageResidency::wholly_cached(const Extent& extent) const {
  if (!available() || extent.length == 0) return false;
  const std::uint64_t first = round_down(extent.offset, small_page_bytes);
  const std::uint64_t bytes = round_up(extent.end() - first, small_page_bytes);
  if (!mapping_) return query_.resident_bytes(first, bytes).value_or(0) >= bytes;
  if (first + bytes > mapping_.size()) return false;
  return resident_bytes_of_mapping(mapping_.data() + first, bytes).value_or(0) >= bytes;
}

}  // namespace penstock
