// SPDX-License-Identifier: Apache-2.0
// Memory whose neighbours are checked: for code that writes into a destination that somebody else sized.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::test {

// `size` bytes, all set to `poison`, with a guard before and behind. `shift` moves the start off its alignment.
class PoisonedBuffer {
 public:
  static constexpr std::byte poison{0xa5};

  explicit PoisonedBuffer(std::size_t size, std::size_t shift = 0)
      : start_(guard_bytes + shift), size_(size), memory_(2 * guard_bytes + shift + size, poison) {}

  std::span<std::byte> bytes() { return std::span(memory_).subspan(start_, size_); }
  std::span<const std::byte> bytes() const { return std::span(memory_).subspan(start_, size_); }
  bool guards_are_intact() const {
    const auto intact = [](std::span<const std::byte> part) {
      return std::ranges::all_of(part, [](std::byte byte) { return byte == poison; });
    };
    return intact(std::span(memory_).first(start_)) && intact(std::span(memory_).subspan(start_ + size_));
  }
  // Bytes that still hold the poison: an upper bound of those that nobody wrote.
  std::size_t untouched() const { return static_cast<std::size_t>(std::ranges::count(bytes(), poison)); }

 private:
  static constexpr std::size_t guard_bytes = 64;
  std::size_t start_;
  std::size_t size_;
  std::vector<std::byte> memory_;
};

}  // namespace penstock::test
