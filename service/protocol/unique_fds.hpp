// SPDX-License-Identifier: Apache-2.0
// UniqueFds: owns the descriptors that came with one message. Of fixed size, so that receiving doesn't
// allocate.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "service/protocol/wire.h"

namespace penstock {

class UniqueFds {
 public:
  static constexpr std::size_t capacity = PSTW_DESCRIPTORS_MAX;

  UniqueFds() = default;
  UniqueFds(UniqueFds&& other) noexcept { *this = std::move(other); }
  UniqueFds& operator=(UniqueFds&& other) noexcept {
    for (std::size_t i = 0; i < capacity; ++i) fds_[i] = std::move(other.fds_[i]);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::size_t size() const { return size_; }
  int operator[](std::size_t i) const { return fds_[i].get(); }  // -1 once taken
  // Gives up ownership of one; size() stays.
  UniqueFd take(std::size_t i) {
    CHECK(i < size_);
    return std::move(fds_[i]);
  }
  // REQUIRES: size() < capacity.
  void add(int fd) {
    CHECK(size_ < capacity);
    fds_[size_++].reset(fd);
  }
  // Closes all that were not taken.
  void clear() {
    for (std::size_t i = 0; i < size_; ++i) fds_[i].reset();
    size_ = 0;
  }

 private:
  std::array<UniqueFd, capacity> fds_;
  std::size_t size_ = 0;
};

}  // namespace penstock
