// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/table_scales.hpp"

#include <cstring>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"

namespace penstock {

TableScales::TableScales(const PageLayout& layout, std::uint32_t offset_granule) : granule_(offset_granule) {
  CHECK(granule_ > 0 && granule_ * 2 <= lane_bytes);
  const std::vector<LayoutPiece>& pieces = layout.pieces();
  for (std::uint32_t index = 0; index < pieces.size(); ++index) {
    const LayoutPiece& piece = pieces[index];
    if (piece.scale == 1.0f && !piece.scale_source) continue;
    if (scales_.empty()) scales_.assign(pieces.size(), 1.0f);
    scales_[index] = piece.scale;
    if (!piece.scale_source) continue;
    pending_.push_back(
        {.piece = index, .file = piece.file, .offset = piece.scale_source->offset, .factor = piece.scale});
  }
}

std::optional<TableScales::Read> TableScales::next() {
  if (failure_ || under_way_ == lanes || pending_.empty()) return std::nullopt;
  if (!memory_) {
    Result<Mapping> memory = Mapping::anonymous(lanes * lane_bytes);
    if (!memory) {
      failure_ = FailureKind::exhausted;
      return std::nullopt;
    }
    memory_ = *std::move(memory);
    in_lane_.resize(lanes);
    for (std::uint32_t lane = lanes; lane > 0; --lane) free_lanes_.push_back(lane - 1);
  }
  const std::uint32_t lane = free_lanes_.back();
  free_lanes_.pop_back();
  const Wanted& wanted = in_lane_[lane] = pending_.back();
  pending_.pop_back();
  ++under_way_;
  const std::uint64_t start = round_down(wanted.offset, granule_);
  const std::uint64_t needed = wanted.offset + sizeof(float) - start;
  return Read{.lane = lane,
              .file = wanted.file,
              .extent = {.offset = start, .length = round_up(needed, granule_)},
              .needed_bytes = needed,
              .destination = memory_.data() + lane * lane_bytes};
}

void TableScales::answered(std::uint32_t lane) {
  CHECK(under_way_ > 0);
  const Wanted& wanted = in_lane_[lane];
  float value = 0.0f;
  std::memcpy(&value, memory_.data() + lane * lane_bytes + wanted.offset % granule_, sizeof value);
  scales_[wanted.piece] = wanted.factor * value;
  --under_way_;
  free_lanes_.push_back(lane);
  if (ready()) memory_ = Mapping();
}

void TableScales::failed(std::uint32_t lane, FailureKind reason) {
  CHECK(under_way_ > 0);
  pending_.push_back(in_lane_[lane]);
  --under_way_;
  free_lanes_.push_back(lane);
  failure_ = reason;
}

void TableScales::start_over() {
  CHECK(idle());
  failure_.reset();
}

float TableScales::of(std::uint32_t piece) const { return scales_.empty() ? 1.0f : scales_[piece]; }

}  // namespace penstock
