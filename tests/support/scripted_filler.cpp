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
  copy_failures_.clear();
  unmappable_.clear();
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
  if (map_error_) {
    failures_.emplace(fence, *map_error_);
    unmappable_.emplace(frame, *std::exchange(map_error_, std::nullopt));
  }
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
  unmappable_.erase(frame);
  return fence;
}

Result<FenceId> ScriptedFiller::copy(FrameId frame, std::uint64_t, std::span<const std::byte>,
                                     const CopyConversion&) {
  const FenceId fence = TRY(queue());
  CHECK(mapped_.contains(frame));
  fail_if_unmappable(fence, frame);
  return fence;
}

// A real one fails too: it is told of the frame before its map's failure is heard.
void ScriptedFiller::fail_if_unmappable(FenceId fence, FrameId frame) {
  if (const auto found = unmappable_.find(frame); found != unmappable_.end())
    copy_failures_.emplace(fence, found->second);
}

std::optional<Error> ScriptedFiller::take_copy_failure(FenceId fence) {
  const auto found = copy_failures_.find(fence);
  if (found == copy_failures_.end()) return std::nullopt;
  return copy_failures_.extract(found).mapped();
}

Result<FenceId> ScriptedFiller::copy_frame(FrameId to, FrameId from) {
  const FenceId fence = TRY(queue());
  CHECK(mapped_.contains(to) && mapped_.contains(from));
  fail_if_unmappable(fence, to);
  fail_if_unmappable(fence, from);
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
