// SPDX-License-Identifier: Apache-2.0
// HostFiller: fills frames of host memory, which are memfds, on the calling thread: a fence is reached when the call
// returns. Ranges are the caller's to check.
#pragma once

#include <unordered_map>

#include "dataplane/base/mapping.hpp"
#include "dataplane/writer/hosted_filler.hpp"

namespace penstock {

class HostFiller : public HostedFiller {
 public:
  HostFiller() = default;

  Result<> use_staging(std::span<std::byte>, int) override { return {}; }
  Result<FenceId> add_source(SourceId, std::span<std::byte>, int) override { return next_fence(); }
  Result<FenceId> drop_source(SourceId) override { return next_fence(); }
  Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use) override;
  std::optional<Error> take_map_failure(FenceId fence) override;
  Result<FenceId> unmap(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  Result<FenceId> reached() override { return newest_; }
  int event_fd() const override { return -1; }
  std::uint64_t incarnation() const override { return 1; }

  Result<FenceId> checksum(FrameId frame) override;
  std::optional<Result<std::uint64_t>> take_checksum(FenceId fence) override;
  std::uint64_t free_bytes() override { return 0; }

 private:
  static Result<Mapping> map_memory(int fd, std::uint64_t bytes, Use use);
  FenceId next_fence() { return newest_ = FenceId{raw(newest_) + 1}; }

  std::unordered_map<FrameId, Mapping> frames_;  // Empty: it could not be mapped.
  std::unordered_map<FenceId, Error> map_failures_;
  std::unordered_map<FenceId, std::uint64_t> checksums_;
  FenceId newest_{};
};

}  // namespace penstock
