// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/page_scrubber.hpp"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

// A sum takes a millisecond or so, and its end wakes nobody.
constexpr Nanoseconds look_again = std::chrono::milliseconds(5);

}  // namespace

PageScrubber::PageScrubber(FrameOwner& owner, std::unique_ptr<FrameSummer> summer, const ScrubRates& rates)
    : owner_(owner),
      summer_(std::move(summer)),
      frame_bytes_(owner.limits().frame_bytes),
      scrub_(frame_bytes_, rates) {}

void PageScrubber::loading(PageKey page, Generation generation, FrameId frame) {
  if (!summer_) return;
  pages_.insert_or_assign(page, Filled{.generation = generation, .frame = frame});
  frames_.insert_or_assign(frame, page);
}

void PageScrubber::resident(PageKey page, Generation generation) {
  const auto at = pages_.find(page);
  if (at == pages_.end() || at->second.generation != generation) return;
  // Again, when an eviction is given up: then its sum is known, or it is known to be corrupt.
  if (std::exchange(at->second.resident, true)) return;
  scrub_.resident(page, generation, at->second.sum);
}

void PageScrubber::destroyed(FrameId frame) {
  const auto of = frames_.find(frame);
  if (of == frames_.end()) return;
  const PageKey page = of->second;
  frames_.erase(of);
  const auto at = pages_.find(page);
  if (at == pages_.end() || at->second.frame != frame) return;
  scrub_.gone(page);
  corrupt_.erase(page);
  pages_.erase(at);
}

bool PageScrubber::holds_back(Nanoseconds now, const Loaded& loaded) {
  if (!summer_ || !summer_->sums_fills() || !loaded.ok || rest_.rests(now)) return false;
  const auto at = pages_.find(loaded.page);
  if (at == pages_.end() || at->second.generation != loaded.generation) return false;
  held_.push_back({.loaded = loaded, .frame = at->second.frame});
  return true;
}

void PageScrubber::take_filled(Nanoseconds now, std::vector<Loaded>& ended) {
  std::erase_if(held_, [&](Held& held) { return end(now, held, ended); });
}

// Whatever becomes of its sum, the page is filled.
bool PageScrubber::end(Nanoseconds now, Held& held, std::vector<Loaded>& ended) {
  if (!held.fence && !rest_.rests(now)) {
    const Result<FenceId> fence = summer_->start_fill(held.frame);
    if (!fence && fence.error().code == Errc::busy) return false;
    if (fence) held.fence = *fence;
    if (fence) return false;
  } else if (held.fence) {
    const std::optional<Result<std::uint64_t>> sum = summer_->take_fill(*held.fence);
    if (!sum) return false;
    const auto at = pages_.find(held.loaded.page);
    const bool is_there = at != pages_.end() && at->second.generation == held.loaded.generation;
    if (*sum && is_there) at->second.sum = **sum;
    if (*sum) rest_.succeeded();
    if (!*sum) failed(now, sum->error());
  }
  if (!held.released) ended.push_back(held.loaded);
  return true;
}

std::vector<PageScrubber::Held>::const_iterator PageScrubber::find_held(PageKey page) const {
  return std::ranges::find_if(
      held_, [page](const Held& held) { return !held.released && held.loaded.page == page; });
}

void PageScrubber::release(std::optional<PageKey> page, std::vector<Loaded>& ended) {
  for (Held& held : held_) {
    if (held.released || (page && held.loaded.page != *page)) continue;
    held.released = true;
    ended.push_back(held.loaded);
  }
  std::erase_if(held_, [](const Held& held) { return held.released && !held.fence; });
}

std::optional<ScrubFinding> PageScrubber::advance(Nanoseconds now, bool may_share) {
  std::optional<ScrubFinding> found;
  if (under_way_) take_sum(now, found);
  if (!under_way_ && may_share && !rest_.rests(now)) start(now);
  return found;
}

// A lost writer answers Errc::device. One that was lost already, before the sum was asked for, is nobody's fault here.
void PageScrubber::failed(Nanoseconds now, const Error& error) {
  if (const std::optional<SumsOff> off = rest_.failed(now, error)) notice_ = off;
  if (rest_.is_off(now)) scrub_.withdraw_requests();
}

void PageScrubber::take_sum(Nanoseconds now, std::optional<ScrubFinding>& found) {
  const std::optional<Result<std::uint64_t>> sum = summer_->take();
  if (!sum) return;
  const ScrubOrder order = *std::exchange(under_way_, std::nullopt);
  if (!*sum) {
    scrub_.failed(order);
    return failed(now, sum->error());
  }
  rest_.succeeded();
  if (scrub_.summed(order, **sum) != ScrubVerdict::corrupt) return;
  found = scrub_.finding();
  corrupt_.insert_or_assign(order.page, order.generation);
}

void PageScrubber::start(Nanoseconds now) {
  const std::optional<ScrubOrder> order = scrub_.next(now);
  if (!order) return;
  const FrameId frame = pages_.at(order->page).frame;
  if (!start_summing(frame)) return scrub_.failed(*order);
  under_way_ = order;
}

Result<> PageScrubber::start_summing(FrameId frame) {
  if (!summer_->wants_descriptors()) return summer_->start(frame, -1, frame_bytes_);
  const ExportedFrame shared = TRY(owner_.share(frame, FrameAccess::shared_read_only));
  return summer_->start(frame, shared.get(), frame_bytes_);
}

Nanoseconds PageScrubber::due(Nanoseconds now) const {
  if (under_way_) return now + look_again;
  // What can't be started at once, because of a copy, is looked at again.
  const Nanoseconds due = scrub_.due(now);
  if (due == PageScrub::never) return due;
  return std::max({due, now + look_again, rest_.until()});
}

}  // namespace penstock
