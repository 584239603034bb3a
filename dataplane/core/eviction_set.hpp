// SPDX-License-Identifier: Apache-2.0
// EvictionSet: a set of page numbers that finds its last one in a step a level; 64 children a node, no node
// allocated.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace penstock {

class EvictionSet {
 public:
  void insert(std::uint32_t page);
  void erase(std::uint32_t page);
  bool contains(std::uint32_t page) const;
  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  // REQUIRES: not empty.
  std::uint32_t last() const;

 private:
  static constexpr std::size_t levels = 4;  // 64^4 pages.
  // Bit b of word w on one level: word 64 * w + b of the level below has a bit set.
  std::array<std::vector<std::uint64_t>, levels> words_;
  std::uint32_t size_ = 0;
};

}  // namespace penstock
