// SPDX-License-Identifier: Apache-2.0
// Requests come, are answered once, and are forgotten.
#include <algorithm>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {

// Null when the request has been answered already: session, table and range are input.
TicketRecord* PagerCore::State::admit(TicketKind kind, Ticket id, SessionId session_id, TableId table_id,
                                      std::uint32_t first, std::uint32_t count) {
  PagingSession* session = nullptr;
  PagedTable* table = tables_.find(table_id);
  bool known = table != nullptr && !table->closing;
  if (kind != TicketKind::prefetch) {
    session = find_session(session_id);
    if (session != nullptr) hear(*session);
    known = known && session != nullptr && session->find(table_id) != nullptr;
  }
  const auto refuse = [&](FailureKind reason) {
    out_.push(Complete{.ticket = id, .result = TicketResult::failed, .reason = reason});
    return nullptr;
  };
  if (!known) return refuse(FailureKind::not_found);
  if ((kind == TicketKind::make_private) != (table->kind == TableKind::overlay) && session != nullptr) {
    return refuse(FailureKind::invalid_argument);
  }
  const std::size_t pages = table->pages.size();
  if (count == 0 || first >= pages || count > pages - first) return refuse(FailureKind::invalid_argument);
  TicketRecord& ticket = tickets_.acquire();
  ticket.id = id;
  ticket.kind = kind;
  ticket.session = session;
  ticket.table = table;
  ticket.first = ticket.take_next = ticket.done_next = first;
  ticket.end = first + count;
  table->tickets.push_back(ticket);
  if (session == nullptr) return &ticket;
  // From now on somebody waits for the acknowledgement that the client may have owed for long.
  if (session->tickets.first() == nullptr) session->batch.sent = now_;
  session->tickets.push_back(ticket);
  return &ticket;
}

// A fault that needs no frame doesn't wait for those that do.
void PagerCore::State::on(const Fault& event) {
  TicketRecord* ticket =
      admit(TicketKind::fault, event.ticket, event.session, event.table, event.first, event.count);
  if (ticket == nullptr) return;
  PagedTable& table = *ticket->table;
  const std::uint32_t cutoff = ticket->session->find(event.table)->cutoff;
  bool all_here = true;
  for (std::uint32_t index = ticket->first; index < ticket->end; ++index) {
    const PageState state = table.pages[index].state;
    if (state != PageState::resident && index >= cutoff) {
      enqueue(*ticket);
      return finish(*ticket, TicketResult::offloaded, FailureKind::offloaded);
    }
    all_here = all_here && (state == PageState::resident || in_flight(state));
  }
  enqueue(*ticket);
  if (!all_here && event.count > budget_) {
    return finish(*ticket, TicketResult::offloaded, FailureKind::never_fits);
  }
  if (!all_here) return;
  hold_range(*ticket);
  for (std::uint32_t index = ticket->first; index < ticket->end; ++index) {
    tables_.policy().faulted(table.key(index));
    counts_.minor_grants += table.pages[index].state == PageState::resident ? 1 : 0;
  }
  ticket->take_next = ticket->end;
  settle(*ticket);
  wake(*ticket->session);
}

void PagerCore::State::on(const Prefetch& event) {
  TicketRecord* ticket = admit(TicketKind::prefetch, event.ticket, {}, event.table, event.first, event.count);
  if (ticket != nullptr) enqueue(*ticket);
}

void PagerCore::State::on(const MakePrivate& event) {
  TicketRecord* ticket =
      admit(TicketKind::make_private, event.ticket, event.session, event.table, event.first, event.count);
  if (ticket != nullptr) enqueue(*ticket);
}

// What it was waiting for goes on: the pages come in, for whoever wants them next.
void PagerCore::State::on(const Cancel& event) {
  TicketRecord* found = nullptr;
  tickets_.for_each([&](TicketRecord& ticket) {
    if (ticket.id == event.ticket) found = &ticket;
  });
  if (found != nullptr) finish(*found, TicketResult::cancelled, event.reason);
}

TicketQueue& PagerCore::State::queue_of(const TicketRecord& ticket) {
  if (ticket.phase != TicketPhase::taking) return settled_;
  switch (ticket.kind) {
    case TicketKind::prefetch: return prefetches_;
    case TicketKind::evict: return evicts_;
    case TicketKind::fault:
    case TicketKind::make_private:
    case TicketKind::budget: break;
  }
  return faults_;
}

// By order of arrival, from the end: only a ticket that starts again is not the last.
void PagerCore::State::enqueue(TicketRecord& ticket) {
  TicketQueue& queue = queue_of(ticket);
  TicketRecord* place = queue.last();
  while (place != nullptr && place->order > ticket.order) place = TicketQueue::before(*place);
  queue.insert_after(place, ticket);
  // Who was the oldest gives back what it holds: two that hold would wait for each other.
  TicketRecord* next = TicketQueue::after(ticket);
  if (next != nullptr && next->holding) start_again(*next);
}

void PagerCore::State::settle(TicketRecord& ticket) {
  if (ticket.phase != TicketPhase::taking) return;
  queue_of(ticket).remove(ticket);
  ticket.phase = TicketPhase::settled;
  settled_.push_back(ticket);
}

void PagerCore::State::say_complete(const TicketRecord& ticket, TicketResult result, FailureKind reason,
                                    std::uint32_t kept_pinned) {
  const Complete complete{.ticket = ticket.id,
                          .result = result,
                          .reason = reason,
                          .frames = ticket.frames,
                          .kept_pinned = kept_pinned};
  if (PLANTED(lost_completion) && result != TicketResult::done) return;
  out_.push(complete);
  if (PLANTED(double_completion) && result != TicketResult::done) out_.push(complete);
}

void PagerCore::State::finish(TicketRecord& ticket, TicketResult result, FailureKind reason,
                              std::uint32_t kept_pinned) {
  say_complete(ticket, result, reason, kept_pinned);
  forget(ticket);
}

void PagerCore::State::forget(TicketRecord& ticket) {
  drop_holds(ticket);
  if (TicketQueue::contains(ticket)) queue_of(ticket).remove(ticket);
  if (ticket.table != nullptr) ticket.table->tickets.remove(ticket);
  if (ticket.session != nullptr) {
    ticket.session->tickets.remove(ticket);
    if (ticket.session->batch.ticket == &ticket) ticket.session->batch.ticket = nullptr;
  }
  if (budget_ticket_ == &ticket) budget_ticket_ = nullptr;
  tickets_.release(ticket);
}

void PagerCore::State::hold_range(TicketRecord& ticket) {
  CHECK(!ticket.holding);
  ticket.holding = true;
  ++holding_tickets_;
  for (std::uint32_t index = ticket.first; index < ticket.end; ++index) hold(*ticket.table, index);
}

void PagerCore::State::drop_source(TicketRecord& ticket) {
  if (!ticket.holds_source) return;
  ticket.holds_source = false;
  PagedTable* origin = tables_.find(ticket.table->origin);
  CHECK(origin != nullptr);
  unhold(*origin, ticket.take_next);
}

void PagerCore::State::drop_holds(TicketRecord& ticket) {
  drop_source(ticket);
  if (!ticket.holding) return;
  ticket.holding = false;
  --holding_tickets_;
  for (std::uint32_t index = ticket.first; index < ticket.end; ++index) unhold(*ticket.table, index);
}

// From the beginning, at its old place in the queue; what has been granted is not granted again.
void PagerCore::State::start_again(TicketRecord& ticket) {
  drop_holds(ticket);
  queue_of(ticket).remove(ticket);
  ticket.phase = TicketPhase::taking;
  if (ticket.kind != TicketKind::prefetch) ticket.done_next = ticket.first;
  ticket.take_next = ticket.done_next;
  enqueue(ticket);
}

}  // namespace penstock
