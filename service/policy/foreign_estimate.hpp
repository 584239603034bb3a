// SPDX-License-Identifier: Apache-2.0
// ForeignEstimate: what others use of a device, for admission, from readings that are ranges. Pure.
//
// A reading can't tell our own frames, which come and go while it is made, from the others' memory to the last byte. The
// estimate keeps its value inside the range of each reading if it can, grows at once when it must, and falls only when
// three readings in a row allow it: budgets fall fast and rise slowly.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace penstock {

class ForeignEstimate {
 public:
  // REQUIRES: least <= most.
  void read(std::uint64_t least, std::uint64_t most) {
    newest_ = newest_ ? std::clamp(*newest_, least, most) : most;
    last_[next_] = *newest_;
    next_ = (next_ + 1) % last_.size();
    count_ = std::min(count_ + 1, last_.size());
  }

  // The greatest of the last three. Empty before the first reading.
  std::optional<std::uint64_t> bytes() const {
    if (count_ == 0) return std::nullopt;
    return *std::max_element(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(count_));
  }

 private:
  std::optional<std::uint64_t> newest_;
  std::array<std::uint64_t, 3> last_{};
  std::size_t next_ = 0, count_ = 0;
};

}  // namespace penstock
