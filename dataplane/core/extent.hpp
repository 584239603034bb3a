// SPDX-License-Identifier: Apache-2.0
// A contiguous byte range of one file.
#pragma once

#include <cstdint>

namespace penstock {

struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  constexpr std::uint64_t end() const { return offset + length; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace penstock
