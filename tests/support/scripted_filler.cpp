// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_filler.hpp"

#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

EventFd new_event() {
  Result<EventFd> event = EventFd::create();
  CHECK(event.has_value());
  return std::move(*event);
}

}  // namespace

ScriptedFiller::ScriptedFiller() : wake_(new_event()) {}

void ScriptedFiller::reach_all() {
  reached_ = newest_;
  wake_.signal();
}

void ScriptedFiller::lose(Errc then) {
  then_ = then;
  lost_ = true;
  loss_told_ = false;
  mapped_.clear();
  failures_.clear();
  wake_.signal();
}

void ScriptedFiller::follow() {
  CHECK(lost_ && loss_told_);
  lost_ = false;
  ++incarnation_;
  reached_ = newest_;
  wake_.signal();
}

Result<FenceId> ScriptedFiller::queue() {
  if (lost_) return loss();
  if (busy_) return Error{Errc::busy, 0, "scripted queue"};
  return newest_ = FenceId{raw(newest_) + 1};
}

Result<FenceId> ScriptedFiller::map(FrameId frame, int fd, std::uint64_t, Use use) {
  const FenceId fence = TRY(queue());
  CHECK(fd >= 0 && mapped_.insert(frame).second);
  if (use == Use::fill) ++fills_;
  if (map_error_) failures_.emplace(fence, *std::exchange(map_error_, std::nullopt));
  return fence;
}

std::optional<Error> ScriptedFiller::take_map_failure(FenceId fence) {
  const auto found = failures_.find(fence);
  if (found == failures_.end()) return std::nullopt;
  const Error error = found->second;
  failures_.erase(found);
  return error;
}

Result<FenceId> ScriptedFiller::unmap(FrameId frame) {
  const FenceId fence = TRY(queue());
  CHECK(mapped_.erase(frame) == 1);
  return fence;
}

Result<FenceId> ScriptedFiller::copy(FrameId frame, std::uint64_t, std::span<const std::byte>,
                                     const CopyConversion&) {
  const FenceId fence = TRY(queue());
  CHECK(mapped_.contains(frame));
  return fence;
}

Result<FenceId> ScriptedFiller::copy_frame(FrameId to, FrameId from) {
  const FenceId fence = TRY(queue());
  CHECK(mapped_.contains(to) && mapped_.contains(from));
  return fence;
}

Result<FenceId> ScriptedFiller::reached() {
  wake_.consume();
  if (!lost_) return reached_;
  const Error error = loss();
  loss_told_ = true;
  return error;
}

}  // namespace penstock
