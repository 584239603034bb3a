// SPDX-License-Identifier: Apache-2.0
// ScriptedFiller: a FrameFiller that fills nothing. Its fences are reached when a test says so; it is lost, followed by
// another, or gone for good on command. Aborts when a rule of the seam is broken: each frame is mapped once, only mapped
// ones are named, and none is unmapped twice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "dataplane/base/event_fd.hpp"
#include "dataplane/device/gpu/frame_filler.hpp"

namespace penstock {

class ScriptedFiller final : public FrameFiller {
 public:
  ScriptedFiller();

  // All that was queued is reached.
  void reach_all();
  // The next map fails with this at its fence.
  void fail_next_map(Error error) { map_error_ = error; }
  void set_busy(bool busy) { busy_ = busy; }
  // Nothing is mapped any more. Once the loss is told the filler answers `then`: Errc::device if another will follow, at
  // follow(), or Errc::closed.
  void lose(Errc then);
  void follow();

  const std::set<FrameId>& mapped() const { return mapped_; }
  int fills() const { return fills_; }

  Result<> use_staging(std::span<std::byte>, int) override { return {}; }
  Result<FenceId> add_source(SourceId, std::span<std::byte>, int) override { return queue(); }
  Result<FenceId> drop_source(SourceId) override { return queue(); }
  Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use) override;
  std::optional<Error> take_map_failure(FenceId fence) override;
  std::optional<Error> take_copy_failure(FenceId fence) override;
  Result<FenceId> unmap(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  Result<FenceId> reached() override;
  int event_fd() const override { return wake_.fd(); }
  std::uint64_t incarnation() const override { return incarnation_; }

 private:
  Result<FenceId> queue();
  void fail_if_unmappable(FenceId fence, FrameId frame);
  Error loss() const { return {loss_told_ ? then_ : Errc::device, 0, "scripted loss"}; }

  const EventFd wake_;
  std::set<FrameId> mapped_;
  std::map<FenceId, Error> failures_, copy_failures_;
  std::map<FrameId, Error> unmappable_;
  std::optional<Error> map_error_;
  FenceId newest_{}, reached_{};
  std::uint64_t incarnation_ = 1;
  int fills_ = 0;
  bool busy_ = false, lost_ = false, loss_told_ = false;
  Errc then_ = Errc::closed;
};

}  // namespace penstock
