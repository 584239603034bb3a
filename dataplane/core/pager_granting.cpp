// SPDX-License-Identifier: Apache-2.0
// Grants: in the order of a ticket's pages, in batches, one unacknowledged batch a session.
#include <array>

#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {

bool PagerCore::State::grant_to_woken() {
  bool moved = false;
  while (!woken_.empty()) {
    if (!out_.has_room()) return moved;
    PagingSession& session = *woken_.back();
    woken_.pop_back();
    session.woken = false;
    bool complete = true;
    for (TicketRecord* ticket = session.tickets.first(); ticket != nullptr && complete;) {
      TicketRecord* next = SessionTickets::after(*ticket);
      if (ticket->holding) moved |= advance(*ticket);
      complete = next == nullptr || out_.has_room();
      ticket = next;
    }
    if (!complete) wake(session);
  }
  return moved;
}

// Grants what is ready. A page that the session has by the core's record is not granted again (it would be a
// second mapping of the same page); while its answer to a revoke is due, that has to come first.
bool PagerCore::State::advance(TicketRecord& ticket) {
  PagingSession& session = *ticket.session;
  TableMapping& mapping = *session.find(ticket.table->id);
  std::array<std::uint32_t, grant_batch_pages> pages;
  std::uint32_t count = 0;
  const std::uint32_t before = ticket.done_next;
  while (ticket.done_next < ticket.take_next) {
    const std::uint32_t index = ticket.done_next;
    if (ticket.table->pages[index].state != PageState::resident) break;
    const MappingState state = mapping.state(index);
    if (state == MappingState::revoking && !session.stuck) break;
    if (state == MappingState::none || PLANTED(granted_twice)) {
      const bool last_of_range = index + 1 == ticket.end && ticket.end - ticket.first > 1;
      if ((session.batch.open && !PLANTED(second_batch)) || count == grant_batch_pages) break;
      if (!PLANTED(off_by_one_page) || !last_of_range) pages[count++] = index;
    }
    ++ticket.done_next;
  }
  const bool completes = ticket.phase == TicketPhase::settled && ticket.done_next == ticket.end;
  if (count > 0) {
    send_batch(ticket, pages.data(), count, completes);
    return true;
  }
  // The client has had all of it; what it has not yet acknowledged of this ticket keeps the ticket open.
  if (completes && session.batch.ticket != &ticket) {
    finish(ticket, TicketResult::done);
    return true;
  }
  return ticket.done_next != before;
}

void PagerCore::State::send_batch(TicketRecord& ticket, const std::uint32_t* pages, std::uint32_t count,
                                  bool completes) {
  PagingSession& session = *ticket.session;
  PagedTable& table = *ticket.table;
  TableMapping& mapping = *session.find(table.id);
  session.batch = {
      .number = session.batch.number + 1, .open = true, .expired = false, .ticket = &ticket, .sent = now_};
  for (std::uint32_t place = 0; place < count; ++place) {
    tables_.set_mapping(mapping, pages[place], MappingState::granted);
    if (table.pages[pages[place]].mappers == 2) say_sharing(table, pages[place]);
  }
  for (std::uint32_t place = 0; place < count; ++place) {
    const std::uint32_t index = pages[place];
    table.pages[index].drop_unheld = false;
    out_.push(Grant{.session = session.id,
                    .batch = session.batch.number,
                    .page = table.key(index),
                    .generation = Generation{table.pages[index].generation},
                    .frame = table.pages[index].frame,
                    .writable = table.is_private(),
                    .last = place + 1 == count});
  }
  // Its pages may be asked back from now on: the client has the batch, and pins them, before it sees the revoke.
  if (completes) finish(ticket, TicketResult::done);
}

void PagerCore::State::on(const Granted& event) {
  PagingSession* session = find_session(event.session);
  if (session == nullptr) return;
  hear(*session);
  if (!session->batch.open || session->batch.number != event.batch) return;
  session->batch.open = false;
  session->batch.ticket = nullptr;
  wake(*session);
}

}  // namespace penstock
