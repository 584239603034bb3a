// SPDX-License-Identifier: Apache-2.0
// The ledger's whole vocabulary: events go in, commands come out. Plain values only.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/failure.hpp"
#include "dataplane/base/ids.hpp"

namespace penstock {

enum class DemandId : std::uint64_t {};     // The caller numbers its demands and never reuses a number.
enum class GrantId : std::uint64_t {};      // The ledger numbers grants from 1.
enum class BudgetOrder : std::uint64_t {};  // The ledger numbers its orders to the pager from 1.

namespace ledger {

// ---- events: sessions ----
struct SessionOpened {
  SessionId session{};
  std::uint32_t user = 0;
};
// Its demands are dropped, its grants given back.
struct SessionClosed {
  SessionId session{};
};
// Wants to book `weights` bytes of pages and, beside the pages, `work` bytes for the client's own
// allocations. Answered once, by Admit or Refuse, unless it is cancelled. A deadline that has passed means:
// do not queue.
struct Ask {
  DemandId demand{};
  SessionId session{};
  std::uint64_t weights_bytes = 0;
  std::uint64_t work_bytes = 0;
  std::uint64_t minimum_work_bytes = 0;
  Nanoseconds deadline{};
};
struct Cancel {
  DemandId demand{};
};
// Answered once, by Released or NotReleased.
struct Release {
  SessionId session{};
  GrantId grant{};
};

// ---- events: facts ----
struct RoomChanged {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t headroom_bytes = 0;  // Kept free on purpose, whatever the reason.
  // Used on the device by others than this service and its grants. Without a value: not known now.
  std::optional<std::uint64_t> foreign_bytes{};
  // What is counted as foreign while that is not known.
  std::uint64_t assumed_foreign_bytes = 0;
  // What the device has for all its users together: the foreign bytes bite only where they leave less than the capacity.
  // 0: no more than the capacity.
  std::uint64_t total_bytes = 0;
  // What pressure on the memory behind the device leaves to all of it: pages, and work that was granted.
  std::uint64_t allowed_bytes = UINT64_MAX;

  friend bool operator==(const RoomChanged&, const RoomChanged&) = default;
};
struct QuotaChanged {
  std::uint64_t per_user_bytes = 0;
};  // 0 = none
struct HealthChanged {
  bool healthy = true;
};
// The pager's answer to SetBudget. `used_bytes`: the order's bytes and what the answer says was kept beyond them; from
// then on the pager's use can only fall until it is within the budget. The pager's published statistics won't do: they
// are older or newer than its answer.
struct BudgetAnswered {
  BudgetOrder order{};
  std::uint64_t used_bytes = 0;
  std::uint64_t pinned_bytes = 0;  // Of those that stayed: in use by clients.
  std::uint64_t stuck_bytes = 0;   // Of those that stayed: their clients did not answer a revoke in time.
};
struct Tick {};  // Time has passed: see Ledger::next_deadline.

using Event = std::variant<SessionOpened, SessionClosed, Ask, Cancel, Release, RoomChanged, QuotaChanged,
                           HealthChanged, BudgetAnswered, Tick>;

// ---- commands ----
struct Admit {
  DemandId demand{};
  SessionId session{};
  GrantId grant{};
  std::uint64_t weights_bytes = 0;
  std::uint64_t work_bytes = 0;
  Nanoseconds waited{};
};
struct Refuse {
  DemandId demand{};
  SessionId session{};
  Failure failure;
  std::uint64_t needed_bytes = 0;  // Weights and minimum work.
  std::uint64_t free_bytes = 0;
  Nanoseconds waited{};
};
// For the log: the demand waits. Not an answer.
struct Queued {
  DemandId demand{};
  SessionId session{};
  std::uint64_t needed_bytes = 0;
  std::uint64_t free_bytes = 0;
};
struct Released {
  SessionId session{};
  GrantId grant{};
  std::uint64_t bytes = 0;
};
struct NotReleased {
  SessionId session{};
  GrantId grant{};
  Failure failure;
};
// The pager may use this much from now on. Wants BudgetAnswered; a later order takes the place of an earlier
// one.
struct SetBudget {
  BudgetOrder order{};
  std::uint64_t bytes = 0;
};

using Command = std::variant<Admit, Refuse, Queued, Released, NotReleased, SetBudget>;

}  // namespace ledger
}  // namespace penstock
