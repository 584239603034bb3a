// SPDX-License-Identifier: Apache-2.0
// HostFiller: fills frames of host memory, which are memfds, on the calling thread: a fence is reached when the call
// returns.
#pragma once

#include <unordered_map>

#include "dataplane/base/mapping.hpp"
#include "dataplane/writer/hosted_filler.hpp"

namespace penstock {

class HostFiller final : public HostedFiller {
 public:
  HostFiller() = default;

  Result<> use_staging(std::span<std::byte>) override { return {}; }
  Result<FenceId> map(FrameId frame, UniqueFd memory, std::uint64_t bytes, Use use) override;
  Result<FenceId> unmap(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  Result<FenceId> checksum(FrameId frame) override;
  Result<FenceId> reached() override { return newest_; }
  std::uint64_t take_checksum(FenceId fence) override;
  int event_fd() const override { return -1; }
  std::uint64_t free_bytes() override { return 0; }

 private:
  FenceId next_fence() { return newest_ = FenceId{raw(newest_) + 1}; }

  std::unordered_map<FrameId, Mapping> frames_;
  std::unordered_map<FenceId, std::uint64_t> checksums_;
  FenceId newest_{};
};

}  // namespace penstock
