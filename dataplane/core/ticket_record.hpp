// SPDX-License-Identifier: Apache-2.0
// TicketRecord: one request inside the core, from its event until its answer and the end of what it holds.
//
//   taking   waits for its turn to take frames; only the first of its queue holds pages
//   settled  has all that it needs or under way; waits for loads and for its grants
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "dataplane/core/pager_events.hpp"
#include "dataplane/core/ticket_list.hpp"

namespace penstock {

struct PagedTable;
struct PagingSession;

enum class TicketKind : std::uint8_t { fault, prefetch, make_private, evict, budget };
enum class TicketPhase : std::uint8_t { taking, settled };

struct TicketRecord {
  Ticket id{};
  std::uint64_t order = 0;           // Of arrival.
  PagingSession* session = nullptr;  // Null: prefetch, evict, budget.
  PagedTable* table = nullptr;       // Null: evict of any table, budget.
  std::uint32_t first = 0, end = 0;  // Pages. Evict and budget: 0 and the number of frames.
  std::uint32_t take_next = 0;       // [first, take_next) are resident or on their way in.
  std::uint32_t done_next = 0;       // [first, done_next) are granted, or, for a prefetch, passed.
  std::uint32_t frames = 0;          // Made resident, or destroyed.
  std::uint32_t refusals = 0;        // Victims that turned out to be in use.
  std::uint32_t creations_failed = 0;
  TicketKind kind = TicketKind::fault;
  TicketPhase phase = TicketPhase::taking;
  bool active = false;
  bool holding = false;          // [first, end) are held.
  bool holds_source = false;     // Make private: the origin's page `take_next` is held.
  bool writer_was_lost = false;  // Has been tried a second time.
  FailureKind creation_failure = FailureKind::exhausted;
  FailureKind cut_short = FailureKind::internal;  // Why a prefetch ends before its last page, if it does.
  ListLink<TicketRecord> in_queue, in_session, in_table;
};

using TicketQueue = LinkedList<TicketRecord, &TicketRecord::in_queue>;
using SessionTickets = LinkedList<TicketRecord, &TicketRecord::in_session>;
using TableTickets = LinkedList<TicketRecord, &TicketRecord::in_table>;

// Places are used again, so a ticket on the steady path allocates nothing.
class TicketPool {
 public:
  TicketRecord& acquire() {
    if (free_.empty()) {
      places_.emplace_back();
      free_.push_back(&places_.back());
    }
    TicketRecord& record = *free_.back();
    free_.pop_back();
    record = TicketRecord{};
    record.active = true;
    record.order = ++order_;
    return record;
  }

  void release(TicketRecord& record) {
    CHECK(record.active && !record.in_queue.linked && !record.in_session.linked && !record.in_table.linked);
    record.active = false;
    free_.push_back(&record);
  }

  // Linear: for Cancel, which is rare, and for verify.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (TicketRecord& record : places_) {
      if (record.active) visit(record);
    }
  }

 private:
  std::deque<TicketRecord> places_;
  std::vector<TicketRecord*> free_;
  std::uint64_t order_ = 0;
};

}  // namespace penstock
