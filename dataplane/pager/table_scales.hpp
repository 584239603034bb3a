// SPDX-License-Identifier: Apache-2.0
// The scales of a table's fp8 weights: F32 scalars of the checkpoint that multiply a weight when it is widened (D2).
// They are read once, before the table's first page, some at a time, by whoever drives this class.
//
// Invariant: a destination that next() has handed out is not handed out again before answered().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/core/extent.hpp"
#include "dataplane/core/page_layout.hpp"

namespace penstock {

class TableScales {
 public:
  static constexpr std::uint32_t lanes = 64;             // Reads under way at once.
  static constexpr std::uint64_t lane_bytes = 2 * 4096;  // A scalar may straddle two granules.

  struct Read {
    std::uint32_t lane = 0;
    std::uint32_t file = 0;
    Extent extent;
    std::uint64_t needed_bytes = 0;
    std::byte* destination = nullptr;
  };

  // `offset_granule` as in ReadLimits, at most 4096.
  TableScales(const PageLayout& layout, std::uint32_t offset_granule);

  bool ready() const { return pending_.empty() && under_way_ == 0; }
  bool idle() const { return under_way_ == 0; }
  // The next read to issue. Empty when enough are under way, none is left, or memory can't be had (see failure()).
  std::optional<Read> next();
  // The bytes of the lane's read are there.
  void answered(std::uint32_t lane);
  // The lane's read failed: nothing more is handed out until start_over().
  void failed(std::uint32_t lane, FailureKind reason);
  // Why the scales can't be had, once idle(); empty while there is hope.
  std::optional<FailureKind> failure() const { return failure_; }
  // REQUIRES: idle(). What was read stays; the rest is tried again.
  void start_over();

  // REQUIRES: ready().
  float of(std::uint32_t piece) const;

 private:
  struct Wanted {
    std::uint32_t piece = 0;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;
    float factor = 1.0f;
  };

  std::uint32_t granule_;
  std::vector<float> scales_;    // By piece; empty when every piece's scale is 1.
  std::vector<Wanted> pending_;  // Not read and not under way; the back goes first.
  std::vector<Wanted> in_lane_;  // By lane.
  std::vector<std::uint32_t> free_lanes_;
  std::uint32_t under_way_ = 0;
  std::optional<FailureKind> failure_;
  Mapping memory_;
};

}  // namespace penstock
