// SPDX-License-Identifier: Apache-2.0
// One device's account: who may use how much of it. Pure: no clock, no thread, no device.
//
//   usable = min(min(capacity, total - foreign) - headroom, allowed);   free = usable - booked
//
// A grant books its bytes before its client allocates them. Booked weights lie within the pager's budget;
// booked work lies outside of it, so the pager's budget is usable - booked work, and work is granted only
// once the pager is known to keep to the smaller budget. Demands are served first come, first served, each
// whole: while the first one waits nothing is booked for anybody. Invariants: DESIGN.md, checked by verify().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "service/policy/ledger_events.hpp"
#include "service/policy/stats.hpp"

namespace penstock {

struct LedgerOptions {
  ledger::RoomChanged room;
  std::uint64_t per_user_bytes = 0;       // 0 = no quota
  std::uint64_t frame_bytes = 1;          // Weights take whole frames, and each frame one descriptor.
  std::uint64_t frames_max = UINT64_MAX;  // As many as the service may hold descriptors for.
  std::size_t waiting_max = 1024;
  std::size_t grants_per_session_max = 4096;
  Nanoseconds wait_max = std::chrono::minutes(10);  // A later deadline is cut to this.
  Nanoseconds budget_grace =
      std::chrono::milliseconds(200);  // The pager's time to answer when nobody may wait.
  Nanoseconds budget_retry = std::chrono::milliseconds(100);  // An unmet order is repeated: pins come and go.
};

class Ledger {
 public:
  using Commands = std::vector<ledger::Command>;

  explicit Ledger(const LedgerOptions& options);

  // Appends what is to be done: at most 2 x waiting_max + 3 commands.
  void step(const ledger::Event& event, Nanoseconds now, Commands& commands);
  // When a Tick is needed next.
  std::optional<Nanoseconds> next_deadline() const;

  // What the pager's budget is to be at the start, before the first SetBudget.
  std::uint64_t pager_budget_bytes() const { return budget_bytes_; }
  LedgerFigures figures() const;
  std::uint64_t booked_bytes(SessionId session) const;
  std::uint64_t work_bytes(SessionId session) const;  // Of that, for its own allocations.
  void verify() const;

 private:
  struct Grant {
    SessionId session{};
    std::uint64_t weights = 0, work = 0, frames = 0;
  };
  struct Session {
    std::uint32_t user = 0;
    std::uint64_t booked = 0;
    std::size_t grants = 0;
  };
  struct Waiter {
    ledger::Ask ask;
    Nanoseconds asked{};
    Nanoseconds deadline{};
    bool announced = false;  // Queued was said.
  };
  // Facts about the first waiter once the pager has been asked to make room for it.
  struct Making {
    DemandId demand{};
    std::uint64_t work = 0;
    Nanoseconds since{};
    Nanoseconds retry_at{};
    bool answered = false;
    std::uint64_t pinned = 0, stuck = 0;
  };

  void on(const ledger::SessionOpened& event, Nanoseconds now, Commands& commands);
  void on(const ledger::SessionClosed& event, Nanoseconds now, Commands& commands);
  void on(const ledger::Ask& event, Nanoseconds now, Commands& commands);
  void on(const ledger::Cancel& event, Nanoseconds now, Commands& commands);
  void on(const ledger::Release& event, Nanoseconds now, Commands& commands);
  void on(const ledger::RoomChanged& event, Nanoseconds now, Commands& commands);
  void on(const ledger::QuotaChanged& event, Nanoseconds now, Commands& commands);
  void on(const ledger::HealthChanged& event, Nanoseconds now, Commands& commands);
  void on(const ledger::BudgetAnswered& event, Nanoseconds now, Commands& commands);
  void on(const ledger::Tick& event, Nanoseconds now, Commands& commands);

  // ledger_serve.cpp: the queue.
  void serve(Nanoseconds now, Commands& commands);
  bool serve_first(Nanoseconds now, Commands& commands);
  void expire(Nanoseconds now, Commands& commands);
  void admit(const Waiter& waiter, std::uint64_t work, Nanoseconds now, Commands& commands);
  void refuse(const Waiter& waiter, Failure failure, Nanoseconds now, Commands& commands);
  void drop_waiter(std::size_t index);
  void order_budget(Nanoseconds now, Commands& commands);
  Nanoseconds expiry_of(std::size_t index) const;

  // ledger_reasons.cpp: why not.
  std::optional<Failure> refusal_at_once(const ledger::Ask& ask) const;
  Failure refusal_at_deadline(std::size_t index) const;
  bool would_deadlock() const;

  std::uint64_t foreign_bytes() const { return room_.foreign_bytes.value_or(room_.assumed_foreign_bytes); }
  std::uint64_t beside_foreign_bytes() const;
  std::uint64_t usable_bytes() const;
  std::uint64_t booked_total() const { return booked_weights_ + booked_work_; }
  std::uint64_t free_bytes() const;
  std::uint64_t user_bytes(std::uint32_t user) const;
  std::uint64_t quota_left(SessionId session) const;
  std::uint64_t frames_of(std::uint64_t weights) const;
  void unbook(std::map<GrantId, Grant>::iterator grant);

  LedgerOptions options_;
  ledger::RoomChanged room_;
  bool healthy_ = true;
  std::map<SessionId, Session> sessions_;
  std::map<std::uint32_t, std::uint64_t> user_booked_;  // No entry for a user without bookings.
  std::map<GrantId, Grant> grants_;
  std::deque<Waiter> waiting_;
  std::optional<Making> making_;
  std::uint64_t booked_weights_ = 0, booked_work_ = 0, booked_frames_ = 0;
  std::uint64_t budget_bytes_ = 0;  // As last ordered.
  std::uint64_t limit_bytes_ = 0;   // What the pager can't exceed for certain: >= budget_bytes_.
  std::uint64_t last_order_ = 0;
  std::uint64_t last_grant_ = 0;
  AdmissionCounts counts_;
};

}  // namespace penstock
