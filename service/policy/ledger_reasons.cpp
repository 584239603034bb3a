// SPDX-License-Identifier: Apache-2.0
// Why a demand is refused: the kind for programs, the numbers for people.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "service/policy/amount.hpp"
#include "service/policy/ledger.hpp"

namespace penstock {
namespace {

std::uint64_t needed_by(const ledger::Ask& ask) {
  return saturating_add(ask.weights_bytes, ask.minimum_work_bytes);
}

}  // namespace

// What no waiting can mend.
std::optional<Failure> Ledger::refusal_at_once(const ledger::Ask& ask) const {
  const std::uint64_t needed = needed_by(ask);
  const auto session = sessions_.find(ask.session);
  if (session == sessions_.end()) return Failure{FailureKind::not_found, "unknown session", ""};
  if (ask.minimum_work_bytes > ask.work_bytes) {
    return Failure{FailureKind::invalid_argument,
                   fmt::format("minimum work {} is more than work {}", amount(ask.minimum_work_bytes),
                               amount(ask.work_bytes)),
                   ""};
  }
  if (needed == 0) return Failure{FailureKind::invalid_argument, "asks for 0 bytes", ""};
  if (!healthy_) return Failure{FailureKind::device_unhealthy, "the device has failed", ""};
  if (needed > room_.capacity_bytes) {
    return Failure{FailureKind::never_fits,
                   fmt::format("{} can never fit in {}", amount(needed), amount(room_.capacity_bytes)), ""};
  }
  if (needed > saturating_subtract(room_.capacity_bytes, room_.headroom_bytes)) {
    return Failure{FailureKind::headroom,
                   fmt::format("{} can never fit in {} less a headroom of {}", amount(needed),
                               amount(room_.capacity_bytes), amount(room_.headroom_bytes)),
                   "device.*.headroom sets it"};
  }
  if (needed > quota_left(ask.session)) {
    return Failure{
        FailureKind::quota,
        fmt::format("needs {}, the quota leaves {} of {} to user {}", amount(needed),
                    amount(quota_left(ask.session)), amount(options_.per_user_bytes), session->second.user),
        "quota.per_user_bytes sets it"};
  }
  if (session->second.grants >= options_.grants_per_session_max) {
    return Failure{FailureKind::quota,
                   fmt::format("the session holds {} grants, which is the most", session->second.grants),
                   "release some"};
  }
  if (frames_of(ask.weights_bytes) > options_.frames_max) {
    return Failure{FailureKind::fd_limit,
                   fmt::format("needs {} descriptors for {} of pages, the service may hold {}",
                               frames_of(ask.weights_bytes), amount(ask.weights_bytes), options_.frames_max),
                   "raise LimitNOFILE of the service, or the device's page_bytes"};
  }
  if (waiting_.size() >= options_.waiting_max)
    return Failure{FailureKind::busy, fmt::format("{} demands wait already", waiting_.size()),
                   "try again later"};
  return std::nullopt;
}

// What stood in the way when the time was up.
Failure Ledger::refusal_at_deadline(std::size_t index) const {
  const ledger::Ask& ask = waiting_[index].ask;
  const std::uint64_t needed = needed_by(ask), free = free_bytes();
  const std::uint64_t frames_left = saturating_subtract(options_.frames_max, booked_frames_);
  const auto because = [&](FailureKind kind, std::string_view why) {
    return Failure{
        kind,
        fmt::format("needs {}, free {} of {} (headroom {}, foreign {}, booked {}): {}", amount(needed),
                    amount(free), amount(room_.capacity_bytes), amount(room_.headroom_bytes),
                    amount(foreign_bytes()), amount(booked_total()), why),
        ""};
  };
  if (needed > saturating_subtract(room_.capacity_bytes, room_.headroom_bytes))
    return because(FailureKind::headroom, "the headroom leaves too little");
  if (frames_of(ask.weights_bytes) > frames_left) {
    return because(FailureKind::fd_limit, fmt::format("needs {} descriptors, {} are left",
                                                      frames_of(ask.weights_bytes), frames_left));
  }
  if (needed > free) {
    const std::uint64_t withheld = saturating_subtract(
        saturating_subtract(beside_foreign_bytes(), room_.headroom_bytes), usable_bytes());
    if (withheld > 0 && needed <= saturating_add(free, withheld))
      return because(FailureKind::headroom, "the node is short of memory");
    if (needed <= saturating_add(free, room_.capacity_bytes - beside_foreign_bytes()))
      return because(FailureKind::foreign_usage, "others than this service use the device");
    return because(FailureKind::deadline, "nothing was released in time");
  }
  if (index > 0) return because(FailureKind::deadline, fmt::format("{} demands are ahead", index));
  if (making_ && making_->stuck > 0) {
    return because(FailureKind::revoke_timeout,
                   fmt::format("{} of pages are held by clients that do not answer", amount(making_->stuck)));
  }
  if (making_ && making_->pinned > 0)
    return because(FailureKind::pinned, fmt::format("{} of pages are pinned", amount(making_->pinned)));
  return because(FailureKind::deadline, "the pages in the way were not evicted in time");
}

// Plays the queue to its end, in its order, under the assumption that a session gives back all that it holds once none
// of its demands waits. If some demand could never be served that way, the sessions that wait hold what they wait for.
// Use by others than this service, and pressure, are taken to go away: they are no session's hold, and a deadline
// bounds them.
bool Ledger::would_deadlock() const {
  std::map<SessionId, std::size_t> demands;
  for (const Waiter& waiter : waiting_) ++demands[waiter.ask.session];
  std::map<SessionId, std::uint64_t> held;
  std::uint64_t held_by_waiting = 0;
  for (const auto& [session, count] : demands) {
    held[session] = booked_bytes(session);
    held_by_waiting += held[session];
  }
  const std::uint64_t all = saturating_subtract(room_.capacity_bytes, room_.headroom_bytes);
  std::uint64_t available = saturating_subtract(all, held_by_waiting);
  for (const Waiter& waiter : waiting_) {
    const std::uint64_t needed = needed_by(waiter.ask);
    if (needed > available) return true;
    available -= needed;
    held[waiter.ask.session] += needed;
    if (--demands[waiter.ask.session] == 0) available += held[waiter.ask.session];
  }
  return false;
}

}  // namespace penstock
