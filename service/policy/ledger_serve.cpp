// SPDX-License-Identifier: Apache-2.0
// The queue: who is served next, and what the pager is told.
#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "service/policy/amount.hpp"
#include "service/policy/ledger.hpp"

namespace penstock {

void Ledger::serve(Nanoseconds now, Commands& commands) {
  do {
    while (!waiting_.empty() && serve_first(now, commands)) continue;
    expire(now, commands);
    // An expiry may have taken away the one that was in the way.
  } while (!waiting_.empty() && serve_first(now, commands));
  for (Waiter& waiter : waiting_) {
    // The pager's first answer is a matter of milliseconds: that alone is no waiting.
    if (making_ && making_->demand == waiter.ask.demand && !making_->answered) continue;
    if (std::exchange(waiter.announced, true)) continue;
    ++counts_.queued;
    commands.push_back(ledger::Queued{
        .demand = waiter.ask.demand,
        .session = waiter.ask.session,
        .needed_bytes = saturating_add(waiter.ask.weights_bytes, waiter.ask.minimum_work_bytes),
        .free_bytes = free_bytes()});
  }
  order_budget(now, commands);
}

// True when the first waiter has got its answer.
bool Ledger::serve_first(Nanoseconds now, Commands& commands) {
  const Waiter& first = waiting_.front();
  const ledger::Ask& ask = first.ask;
  const std::uint64_t needed = saturating_add(ask.weights_bytes, ask.minimum_work_bytes);
  const std::uint64_t quota = quota_left(ask.session);
  if (needed > quota) {
    // Its user has booked more since it was asked; only that user could make it fit.
    const Waiter copy = first;
    Failure failure = *refusal_at_once(ask);
    drop_waiter(0);
    refuse(copy, std::move(failure), now, commands);
    return true;
  }
  const bool frames_fit =
      frames_of(ask.weights_bytes) <= saturating_subtract(options_.frames_max, booked_frames_);
  if (needed > free_bytes() || !frames_fit) {
    making_.reset();  // Nothing is set aside for a demand that must wait for others.
    return false;
  }
  std::uint64_t work =
      std::min({ask.work_bytes, free_bytes() - ask.weights_bytes, quota - ask.weights_bytes});
  const std::uint64_t for_pager_and_work = usable_bytes() - booked_work_;
  const std::uint64_t certain = saturating_subtract(for_pager_and_work, limit_bytes_);
  const bool is_making = making_ && making_->demand == ask.demand;
  if (work > certain && is_making && making_->answered && certain >= ask.minimum_work_bytes) work = certain;
  if (work <= certain) {
    const Waiter copy = first;
    drop_waiter(0);
    admit(copy, work, now, commands);
    return true;
  }
  if (!is_making) {
    making_ = Making{.demand = ask.demand, .since = now};
  } else if (making_->work == work) {
    return false;
  }
  making_->work = work;
  making_->answered = false;
  return false;
}

void Ledger::expire(Nanoseconds now, Commands& commands) {
  for (std::size_t index = 0; index < waiting_.size();) {
    if (expiry_of(index) > now) {
      ++index;
      continue;
    }
    Failure failure = refusal_at_deadline(index);
    const Waiter copy = waiting_[index];
    drop_waiter(index);
    refuse(copy, std::move(failure), now, commands);
  }
}

void Ledger::admit(const Waiter& waiter, std::uint64_t work, Nanoseconds now, Commands& commands) {
  const ledger::Ask& ask = waiter.ask;
  const Grant grant{.session = ask.session,
                    .weights = ask.weights_bytes,
                    .work = work,
                    .frames = frames_of(ask.weights_bytes)};
  const std::uint64_t bytes = grant.weights + grant.work;
  CHECK(bytes <= free_bytes() && work >= ask.minimum_work_bytes && work <= ask.work_bytes);
  const GrantId id{++last_grant_};
  grants_.emplace(id, grant);
  Session& session = sessions_.at(ask.session);
  session.booked += bytes;
  ++session.grants;
  user_booked_[session.user] += bytes;
  booked_weights_ += grant.weights;
  booked_work_ += grant.work;
  booked_frames_ += grant.frames;
  ++(work == ask.work_bytes ? counts_.admitted_full : counts_.admitted_partial);
  counts_.wait.add(now - waiter.asked);
  commands.push_back(ledger::Admit{.demand = ask.demand,
                                   .session = ask.session,
                                   .grant = id,
                                   .weights_bytes = grant.weights,
                                   .work_bytes = work,
                                   .waited = now - waiter.asked});
}

void Ledger::refuse(const Waiter& waiter, Failure failure, Nanoseconds now, Commands& commands) {
  ++counts_.refused[static_cast<std::size_t>(failure.kind)];
  counts_.wait.add(now - waiter.asked);
  commands.push_back(
      ledger::Refuse{.demand = waiter.ask.demand,
                     .session = waiter.ask.session,
                     .failure = std::move(failure),
                     .needed_bytes = saturating_add(waiter.ask.weights_bytes, waiter.ask.minimum_work_bytes),
                     .free_bytes = free_bytes(),
                     .waited = now - waiter.asked});
}

void Ledger::drop_waiter(std::size_t index) {
  if (index == 0) making_.reset();
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Ledger::order_budget(Nanoseconds now, Commands& commands) {
  const std::uint64_t target =
      saturating_subtract(usable_bytes(), booked_work_ + (making_ ? making_->work : 0));
  const bool repeat = making_ && making_->retry_at <= now;
  if (target == budget_bytes_ && !repeat) return;
  budget_bytes_ = target;
  limit_bytes_ = std::max(limit_bytes_, target);
  if (making_) making_->retry_at = now + options_.budget_retry;
  commands.push_back(ledger::SetBudget{.order = BudgetOrder{++last_order_}, .bytes = target});
}

// A first waiter for which the pager is at work gets the pager's answer even if nobody may wait; after that only its
// own deadline counts.
Nanoseconds Ledger::expiry_of(std::size_t index) const {
  const Nanoseconds deadline = waiting_[index].deadline;
  if (index != 0 || !making_ || making_->answered) return deadline;
  return std::max(deadline, making_->since + options_.budget_grace);
}

std::optional<Nanoseconds> Ledger::next_deadline() const {
  std::optional<Nanoseconds> next;
  const auto sooner = [&](Nanoseconds time) { next = next ? std::min(*next, time) : time; };
  for (std::size_t index = 0; index < waiting_.size(); ++index) sooner(expiry_of(index));
  if (making_) sooner(making_->retry_at);
  return next;
}

}  // namespace penstock
