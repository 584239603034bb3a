// SPDX-License-Identifier: Apache-2.0
// Events, and the account itself. The queue is in ledger_serve.cpp, the reasons are in ledger_reasons.cpp.
#include "service/policy/ledger.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "service/policy/amount.hpp"

namespace penstock {

Ledger::Ledger(const LedgerOptions& options) : options_(options), room_(options.room) {
  CHECK(options_.frame_bytes > 0);
  budget_bytes_ = usable_bytes();
  limit_bytes_ = budget_bytes_;
}

void Ledger::step(const ledger::Event& event, Nanoseconds now, Commands& commands) {
  std::visit([&](const auto& one) { on(one, now, commands); }, event);
}

void Ledger::on(const ledger::SessionOpened& event, Nanoseconds, Commands&) {
  const bool inserted =
      sessions_.emplace(event.session, Session{.user = event.user, .booked = 0, .grants = 0}).second;
  CHECK(inserted);
}

void Ledger::on(const ledger::SessionClosed& event, Nanoseconds now, Commands& commands) {
  if (!sessions_.contains(event.session)) return;
  for (std::size_t index = waiting_.size(); index > 0; --index) {
    if (waiting_[index - 1].ask.session != event.session) continue;
    drop_waiter(index - 1);
    ++counts_.cancelled;
  }
  for (auto grant = grants_.begin(); grant != grants_.end();) {
    const auto next = std::next(grant);
    if (grant->second.session == event.session) unbook(grant);
    grant = next;
  }
  sessions_.erase(event.session);
  serve(now, commands);
}

void Ledger::on(const ledger::Ask& event, Nanoseconds now, Commands& commands) {
  Waiter waiter{.ask = event, .asked = now, .deadline = std::min(event.deadline, now + options_.wait_max)};
  if (event.minimum_work_bytes == 0) waiter.ask.minimum_work_bytes = event.work_bytes;
  if (std::optional<Failure> failure = refusal_at_once(waiter.ask)) {
    refuse(waiter, *std::move(failure), now, commands);
    return;
  }
  waiting_.push_back(waiter);
  while (!waiting_.empty() && serve_first(now, commands)) continue;
  const bool waits = !waiting_.empty() && waiting_.back().ask.demand == event.demand;
  const bool room_is_being_made = making_ && making_->demand == event.demand;
  if (waits && !room_is_being_made && would_deadlock()) {
    const Waiter last = waiting_.back();
    drop_waiter(waiting_.size() - 1);
    const std::uint64_t needed = saturating_add(last.ask.weights_bytes, last.ask.minimum_work_bytes);
    refuse(
        last,
        Failure{FailureKind::would_deadlock,
                fmt::format(
                    "needs {}, free {}: what is missing is held by sessions that wait themselves; this one "
                    "holds {}",
                    amount(needed), amount(free_bytes()), amount(booked_bytes(last.ask.session))),
                "release what the session holds, then ask for all of it at once"},
        now, commands);
  }
  serve(now, commands);
}

void Ledger::on(const ledger::Cancel& event, Nanoseconds now, Commands& commands) {
  const auto found =
      std::ranges::find(waiting_, event.demand, [](const Waiter& waiter) { return waiter.ask.demand; });
  if (found == waiting_.end()) return;  // Answered already: the two have crossed.
  drop_waiter(static_cast<std::size_t>(found - waiting_.begin()));
  ++counts_.cancelled;
  serve(now, commands);
}

void Ledger::on(const ledger::Release& event, Nanoseconds now, Commands& commands) {
  const auto grant = grants_.find(event.grant);
  // Another session's grant is answered like one that never was: numbers tell nothing about others.
  if (grant == grants_.end() || grant->second.session != event.session) {
    commands.push_back(ledger::NotReleased{
        .session = event.session,
        .grant = event.grant,
        .failure = {FailureKind::not_found, fmt::format("unknown grant {}", raw(event.grant)),
                    "released already?"}});
    return;
  }
  const std::uint64_t bytes = grant->second.weights + grant->second.work;
  unbook(grant);
  commands.push_back(ledger::Released{.session = event.session, .grant = event.grant, .bytes = bytes});
  serve(now, commands);
}

void Ledger::on(const ledger::RoomChanged& event, Nanoseconds now, Commands& commands) {
  room_ = event;
  serve(now, commands);
}

void Ledger::on(const ledger::QuotaChanged& event, Nanoseconds now, Commands& commands) {
  options_.per_user_bytes = event.per_user_bytes;
  serve(now, commands);
}

void Ledger::on(const ledger::HealthChanged& event, Nanoseconds now, Commands& commands) {
  healthy_ = event.healthy;
  while (!healthy_ && !waiting_.empty()) {
    const Waiter first = waiting_.front();
    drop_waiter(0);
    refuse(first, Failure{FailureKind::device_unhealthy, "the device has failed", ""}, now, commands);
  }
  serve(now, commands);
}

void Ledger::on(const ledger::BudgetAnswered& event, Nanoseconds now, Commands& commands) {
  if (raw(event.order) != last_order_) return;  // A later order has taken its place.
  limit_bytes_ = std::max(budget_bytes_, event.used_bytes);
  if (making_) {
    making_->answered = true;
    making_->pinned = event.pinned_bytes;
    making_->stuck = event.stuck_bytes;
  }
  serve(now, commands);
}

void Ledger::on(const ledger::Tick&, Nanoseconds now, Commands& commands) { serve(now, commands); }

LedgerFigures Ledger::figures() const {
  return {.capacity_bytes = room_.capacity_bytes,
          .headroom_bytes = room_.headroom_bytes,
          .foreign_bytes = room_.foreign_bytes,
          .counted_foreign_bytes = foreign_bytes(),
          .allowed_bytes = std::min(room_.allowed_bytes, room_.capacity_bytes),
          .booked_weights_bytes = booked_weights_,
          .booked_work_bytes = booked_work_,
          .free_bytes = free_bytes(),
          .pager_budget_bytes = budget_bytes_,
          .waiting = waiting_.size(),
          .grants = grants_.size(),
          .admissions = counts_};
}

std::uint64_t Ledger::booked_bytes(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : found->second.booked;
}

std::uint64_t Ledger::work_bytes(SessionId session) const {
  std::uint64_t sum = 0;
  for (const auto& [id, grant] : grants_) sum += grant.session == session ? grant.work : 0;
  return sum;
}

std::uint64_t Ledger::beside_foreign_bytes() const {
  const std::uint64_t total = std::max(room_.total_bytes, room_.capacity_bytes);
  return std::min(room_.capacity_bytes, saturating_subtract(total, foreign_bytes()));
}

std::uint64_t Ledger::usable_bytes() const {
  return std::min(saturating_subtract(beside_foreign_bytes(), room_.headroom_bytes), room_.allowed_bytes);
}

std::uint64_t Ledger::free_bytes() const { return saturating_subtract(usable_bytes(), booked_total()); }

std::uint64_t Ledger::user_bytes(std::uint32_t user) const {
  const auto found = user_booked_.find(user);
  return found == user_booked_.end() ? 0 : found->second;
}

std::uint64_t Ledger::quota_left(SessionId session) const {
  if (options_.per_user_bytes == 0) return UINT64_MAX;
  return saturating_subtract(options_.per_user_bytes, user_bytes(sessions_.at(session).user));
}

std::uint64_t Ledger::frames_of(std::uint64_t weights) const {
  return divide_up(weights, options_.frame_bytes);
}

void Ledger::unbook(std::map<GrantId, Grant>::iterator grant) {
  const Grant& gone = grant->second;
  Session& session = sessions_.at(gone.session);
  const std::uint64_t bytes = gone.weights + gone.work;
  const auto user = user_booked_.find(session.user);
  CHECK(user != user_booked_.end() && user->second >= bytes && session.booked >= bytes && session.grants > 0);
  CHECK(booked_weights_ >= gone.weights && booked_work_ >= gone.work && booked_frames_ >= gone.frames);
  user->second -= bytes;
  if (user->second == 0) user_booked_.erase(user);
  session.booked -= bytes;
  --session.grants;
  booked_weights_ -= gone.weights;
  booked_work_ -= gone.work;
  booked_frames_ -= gone.frames;
  grants_.erase(grant);
}

void Ledger::verify() const {
  std::uint64_t weights = 0, work = 0, frames = 0, by_session = 0, by_user = 0;
  std::size_t grants = 0;
  for (const auto& [id, grant] : grants_) {
    CHECK(raw(id) != 0 && raw(id) <= last_grant_ && sessions_.contains(grant.session));
    CHECK(grant.weights + grant.work > 0);
    weights += grant.weights;
    work += grant.work;
    frames += grant.frames;
  }
  for (const auto& [id, session] : sessions_) {
    by_session += session.booked;
    grants += session.grants;
  }
  for (const auto& [user, bytes] : user_booked_) {
    CHECK(bytes > 0);
    by_user += bytes;
  }
  CHECK(weights == booked_weights_ && work == booked_work_ && frames == booked_frames_);
  CHECK(by_session == booked_total() && by_user == booked_total() && grants == grants_.size());
  CHECK(waiting_.size() <= options_.waiting_max);
  CHECK(limit_bytes_ >= budget_bytes_);
  CHECK(!making_ || (!waiting_.empty() && waiting_.front().ask.demand == making_->demand));
  const std::uint64_t set_aside = booked_work_ + (making_ ? making_->work : 0);
  CHECK(budget_bytes_ == saturating_subtract(usable_bytes(), set_aside));
  for (const Waiter& waiter : waiting_) CHECK(sessions_.contains(waiter.ask.session));
}

}  // namespace penstock
