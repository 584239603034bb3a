// SPDX-License-Identifier: Apache-2.0
// FixedHeadroom: a HeadroomSource that is a number. What its user takes comes off it.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/base/units.hpp"
#include "dataplane/device/headroom_source.hpp"

namespace penstock {

class FixedHeadroom final : public HeadroomSource {
 public:
  explicit FixedHeadroom(std::uint64_t bytes = 1 * tib)
      : bytes_(static_cast<std::int64_t>(bytes)), limit_(bytes) {}

  std::uint64_t headroom_bytes() override {
    const std::int64_t left = bytes_.load();
    return left > 0 ? static_cast<std::uint64_t>(left) : 0;
  }
  std::uint64_t limit_bytes() override { return limit_; }
  void account(std::int64_t bytes) override { bytes_ -= bytes; }

  // What somebody else in the cgroup took or gave back.
  void change_by(std::int64_t bytes) { bytes_ += bytes; }

 private:
  std::atomic<std::int64_t> bytes_;
  const std::uint64_t limit_;
};

}  // namespace penstock
