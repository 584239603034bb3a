// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/host_tier.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

constexpr std::size_t forgotten_max = 256;  // Files of whose losses nobody has asked yet.

HostFrameOptions frame_options(const HostTierOptions& options) {
  return {.frame_bytes = options.page_bytes,
          .capacity_bytes = options.capacity_bytes,
          .ready_pool_frames = 0,
          .reserve_bytes = options.reserve_bytes,
          .pages = options.pages,
          .ahead = false,
          .locked = true};
}

std::size_t index_of(TierFrame frame) { return static_cast<std::size_t>(frame); }

}  // namespace

Result<std::shared_ptr<HostTier>> HostTier::make(const HostTierOptions& options, HeadroomSource& headroom) {
  CHECK(options.page_bytes > 0 && options.page_bytes % small_page_bytes == 0);
  EventFd made = TRY(EventFd::create());
  return std::shared_ptr<HostTier>(new HostTier(options, headroom, std::move(made)));
}

HostTier::HostTier(const HostTierOptions& options, HeadroomSource& headroom, EventFd made)
    : options_(options),
      maker_(frame_options(options), headroom, std::move(made)),
      book_(options.page_bytes, std::min(options.budget_bytes, options.capacity_bytes) / options.page_bytes) {
}

void HostTier::announce(const FileIdentity& file) {
  const std::lock_guard lock(mutex_);
  if (files_.contains(file)) return;
  const TierFile id = book_.open(file.bytes);
  files_.emplace(file, id);
  known_.emplace(id, Known{.identity = file});
}

void HostTier::forget(const FileIdentity& file) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(file);
  if (known == files_.end()) return;
  book_.forget(known->second);
  settle();
  const auto entry = known_.find(known->second);
  const bool is_dropped =
      std::ranges::any_of(entry->second.dropped, [](std::uint64_t pages) { return pages > 0; });
  if (!is_dropped || known_.size() - files_.size() >= forgotten_max) known_.erase(entry);
  files_.erase(known);
}

void HostTier::forget(TierFile file) {
  const std::unique_lock lock(mutex_);
  // The name stays: whoever announces this identity again finds nothing of it, as is right for a file that has changed.
  book_.forget(file);
  settle();
}

void HostTier::drop(TierPage page) {
  const std::lock_guard lock(mutex_);
  book_.drop(page);
  settle();
}

void HostTier::set_budget(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  book_.set_budget(std::min(bytes, options_.capacity_bytes) / options_.page_bytes);
  settle();
}

bool HostTier::wait_until_at_most(std::uint64_t bytes, Nanoseconds limit) {
  return maker_.wait_until_at_most(bytes / options_.page_bytes, limit);
}

TierStats HostTier::stats() const {
  const HostFrameStats frames = maker_.stats();
  const std::lock_guard lock(mutex_);
  const TierFigures& figures = book_.figures();
  return {.used_bytes = (frames.alive + frames.in_the_making + frames.dying) * options_.page_bytes,
          .held_bytes = figures.valid_frames * options_.page_bytes,
          .budget_bytes = figures.budget_frames * options_.page_bytes,
          .page_bytes = options_.page_bytes,
          .awaited_frames = figures.awaited_frames,
          .unlocked_frames = frames.unlocked_total,
          .refused_frames = frames.exhausted_total + frames.no_headroom_total + frames.fd_limit_total,
          .hits = figures.hits,
          .misses = figures.misses,
          .hit_bytes = figures.hit_bytes,
          .miss_bytes = figures.miss_bytes,
          .evictions = figures.evictions};
}

std::uint64_t HostTier::bytes_of(const FileIdentity& file) const {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(file);
  if (known == files_.end()) return 0;
  return std::min(book_.held_frames(known->second) * options_.page_bytes, file.bytes);
}

std::vector<HostTier::Dropped> HostTier::take_dropped() {
  const std::lock_guard lock(mutex_);
  const TierFigures& figures = book_.figures();
  std::vector<Dropped> taken;
  for (auto entry = known_.begin(); entry != known_.end();) {
    Known& known = entry->second;
    for (std::size_t why = 0; why < tier_losses; ++why) {
      const std::uint64_t pages = std::exchange(known.dropped[why], 0);
      if (pages == 0) continue;
      taken.push_back({.checkpoint = known.identity.id(),
                       .why = static_cast<TierLoss>(why),
                       .bytes = pages * options_.page_bytes,
                       .used_bytes = figures.frames * options_.page_bytes,
                       .budget_bytes = figures.budget_frames * options_.page_bytes});
    }
    const auto file = files_.find(known.identity);
    const bool is_open = file != files_.end() && file->second == entry->first;
    entry = is_open ? std::next(entry) : known_.erase(entry);
  }
  return taken;
}

Result<TierUser> HostTier::add_user() {
  const std::lock_guard lock(mutex_);
  if (users_.size() == tier_users_max) return Error{Errc::exhausted, 0, "users of the pinned host tier"};
  users_.push_back(TRY(EventFd::create()));
  return static_cast<TierUser>(users_.size() - 1);
}

int HostTier::user_fd(TierUser user) const {
  const std::lock_guard lock(mutex_);
  return users_[user].fd();
}

bool HostTier::collect(TierUser user) {
  const std::lock_guard lock(mutex_);
  maker_.take(SIZE_MAX, answers_);
  for (FrameAnswer& answer : answers_) {
    const auto frame = TierFrame{static_cast<std::uint32_t>(answer.tag)};
    if (frames_.size() <= index_of(frame)) frames_.resize(index_of(frame) + 1);
    if (answer.result == CreateResult::created) {
      frames_[index_of(frame)] = std::move(answer.frame);
      book_.made(frame);
    } else {
      book_.refused(frame);
    }
  }
  const bool any = !answers_.empty();
  answers_.clear();
  if (any) {
    settle();
    wake_waiting();
  }
  return users_[user].consume();
}

std::optional<TierFile> HostTier::find(const FileIdentity& file) const {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(file);
  if (known == files_.end()) return std::nullopt;
  return known->second;
}

HostTier::Place HostTier::ask(TierUser user, TierPage page) {
  const std::lock_guard lock(mutex_);
  const TierBook::Answer answer = book_.ask(page);
  Place place{.way = answer.way, .frame = answer.frame};
  switch (answer.way) {
    case TierBook::Way::held:
    case TierBook::Way::fill:
      book_.hold(answer.frame, user);
      place.memory = frames_[index_of(answer.frame)].bytes();
      place.fd = frames_[index_of(answer.frame)].fd();
      break;
    case TierBook::Way::create:
      maker_.want(index_of(answer.frame));
      gone_.reserve(book_.places());
      lost_.reserve(book_.places());
      place.way = TierBook::Way::wait;
      [[fallthrough]];
    case TierBook::Way::wait: waiting_ |= 1u << user; break;
    case TierBook::Way::pass: break;
  }
  settle();
  return place;
}

void HostTier::served(TierFile file, std::uint64_t bytes, TierBook::Served how) {
  const std::lock_guard lock(mutex_);
  book_.served(file, bytes, how);
}

void HostTier::filled(TierFrame frame, bool ok) {
  const std::lock_guard lock(mutex_);
  book_.filled(frame, ok);
  settle();
  wake_waiting();
}

void HostTier::unpin(TierFrame frame) {
  const std::lock_guard lock(mutex_);
  book_.unpin(frame);
  settle();
}

void HostTier::resident(TierFile file, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  book_.resident(file, bytes);
}

void HostTier::take_calls(TierUser user, std::vector<TierFrame>& taken) {
  const std::lock_guard lock(mutex_);
  book_.take_calls(user, taken);
}

void HostTier::let_go(TierFrame frame, TierUser user) {
  const std::lock_guard lock(mutex_);
  book_.let_go(frame, user);
  settle();
}

// What the book has decided since: memory goes back, users hear of what they are to let go of.
void HostTier::settle() {
  count_lost();
  book_.take_gone(gone_);
  for (const TierFrame frame : gone_) {
    if (index_of(frame) >= frames_.size() || !frames_[index_of(frame)]) continue;  // It was never made.
    maker_.bury(std::exchange(frames_[index_of(frame)], HostFrame()));
  }
  for (TierUser user = 0; user < users_.size(); ++user) {
    if (book_.calls(user)) users_[user].signal();
  }
}

void HostTier::count_lost() {
  book_.take_lost(lost_);
  for (const TierBook::Lost& lost : lost_) {
    const auto known = known_.find(lost.page.file);
    if (known != known_.end()) ++known->second.dropped[static_cast<std::size_t>(lost.why)];
  }
}

void HostTier::wake_waiting() {
  for (TierUser user = 0; user < users_.size(); ++user) {
    if ((waiting_ >> user & 1u) != 0) users_[user].signal();
  }
  waiting_ = 0;
}

}  // namespace penstock
