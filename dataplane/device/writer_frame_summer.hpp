// SPDX-License-Identifier: Apache-2.0
// WriterFrameSummer: FrameSummer of a device whose writer has the context: the sums are its work, behind its other work.
#pragma once

#include <optional>

#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/frame_summer.hpp"

namespace penstock {

class WriterFrameSummer final : public FrameSummer {
 public:
  // REQUIRES: `writer` outlives it.
  explicit WriterFrameSummer(FrameWriter& writer) : writer_(writer) {}

  bool wants_descriptors() const override { return false; }
  Result<> start(FrameId frame, int, std::uint64_t) override {
    if (fence_) return Error{Errc::busy, 0, "frame summer"};
    fence_ = TRY(writer_.sum(frame));
    writer_.flush();
    return {};
  }
  std::optional<Result<std::uint64_t>> take() override {
    if (!fence_) return std::nullopt;
    std::optional<Result<std::uint64_t>> sum = writer_.take_sum(*fence_);
    if (sum) fence_.reset();
    return sum;
  }
  bool sums_fills() const override { return true; }
  Result<FenceId> start_fill(FrameId frame) override {
    const FenceId fence = TRY(writer_.sum(frame));
    writer_.flush();
    return fence;
  }
  std::optional<Result<std::uint64_t>> take_fill(FenceId fence) override { return writer_.take_sum(fence); }

 private:
  FrameWriter& writer_;
  std::optional<FenceId> fence_;
};

}  // namespace penstock
