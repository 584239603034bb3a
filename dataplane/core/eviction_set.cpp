// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/eviction_set.hpp"

#include <bit>

#include "dataplane/base/check.hpp"

namespace penstock {

void EvictionSet::insert(std::uint32_t page) {
  CHECK(page < 1u << 24);
  CHECK(!contains(page));
  ++size_;
  std::uint32_t place = page;
  for (std::vector<std::uint64_t>& level : words_) {
    const std::size_t word = place / 64;
    if (word >= level.size()) level.resize(word + 1);
    level[word] |= std::uint64_t{1} << place % 64;
    place = static_cast<std::uint32_t>(word);
  }
}

void EvictionSet::erase(std::uint32_t page) {
  CHECK(contains(page));
  --size_;
  std::uint32_t place = page;
  for (std::vector<std::uint64_t>& level : words_) {
    std::uint64_t& word = level[place / 64];
    word &= ~(std::uint64_t{1} << place % 64);
    if (word != 0) return;
    place /= 64;
  }
}

bool EvictionSet::contains(std::uint32_t page) const {
  const std::vector<std::uint64_t>& level = words_.front();
  return page / 64 < level.size() && (level[page / 64] >> page % 64 & 1) != 0;
}

std::uint32_t EvictionSet::last() const {
  CHECK(size_ > 0);
  std::uint32_t place = 0;
  for (std::size_t level = levels; level-- > 0;) {
    place = place * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(words_[level][place]));
  }
  return place;
}

}  // namespace penstock
