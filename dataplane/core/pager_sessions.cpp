// SPDX-License-Identifier: Apache-2.0
// Sessions come, attach, detach and go.
#include <algorithm>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {

void PagerCore::State::on(const SessionOpened& event) {
  auto session = std::make_unique<PagingSession>();
  session->id = event.session;
  session->private_frames_max = event.private_frames_max;
  const bool added = sessions_.emplace(event.session, std::move(session)).second;
  CHECK(added);
}

void PagerCore::State::on(const SessionClosed& event) {
  const auto found = sessions_.find(event.session);
  if (found == sessions_.end()) return;
  PagingSession& session = *found->second;
  out_.forget(session.id);
  while (TicketRecord* ticket = session.tickets.first()) {
    finish(*ticket, TicketResult::cancelled, FailureKind::disconnected);
  }
  if (PLANTED(forgotten_session) && session.mapped > 0) return;
  while (!session.mappings.empty()) detach(session, *session.mappings.begin()->second);
  tables_.for_each([&](PagedTable& table) {
    if (table.owner != &session) return;
    table.owner = nullptr;
    if (!table.closing) close(table, EvictReason::session_closed);
  });
  if (session.woken) std::erase(woken_, &session);
  sessions_.erase(found);
}

void PagerCore::State::on(const TableAttached& event) {
  PagingSession* session = find_session(event.session);
  PagedTable* table = tables_.find(event.table);
  CHECK(session != nullptr && table != nullptr && !table->closing);
  CHECK(!table->is_private() || table->owner == session);
  hear(*session);
  auto mapping = std::make_unique<TableMapping>();
  mapping->session = session;
  mapping->table = table;
  mapping->mode = event.mode;
  mapping->words.resize(table->pages.size());
  const auto [place, added] = session->mappings.emplace(event.table, std::move(mapping));
  CHECK(added);
  tables_.attach(*place->second);
}

void PagerCore::State::on(const TableDetached& event) {
  PagingSession* session = find_session(event.session);
  if (session == nullptr) return;
  hear(*session);
  TableMapping* mapping = session->find(event.table);
  if (mapping == nullptr) return;
  for (TicketRecord* ticket = session->tickets.first(); ticket != nullptr;) {
    TicketRecord* next = SessionTickets::after(*ticket);
    if (ticket->table == mapping->table) {
      finish(*ticket, TicketResult::cancelled, FailureKind::cancelled);
    }
    ticket = next;
  }
  detach(*session, *mapping);
}

void PagerCore::State::on(const SetCutoff& event) {
  PagingSession* session = find_session(event.session);
  if (session == nullptr) return;
  hear(*session);
  TableMapping* mapping = session->find(event.table);
  if (mapping != nullptr) mapping->cutoff = event.pages;
}

PagingSession* PagerCore::State::find_session(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second.get();
}

// Null unless the session has attached the table and the page is one of it.
TableMapping* PagerCore::State::find_mapping(SessionId session, PageKey page) const {
  const PagingSession* found = find_session(session);
  TableMapping* mapping = found == nullptr ? nullptr : found->find(page.table);
  return mapping == nullptr || page.index >= mapping->words.size() ? nullptr : mapping;
}

// Everything that the session has of the table ends, as if it had acknowledged.
void PagerCore::State::detach(PagingSession& session, TableMapping& mapping) {
  for (std::uint32_t index = 0; index < mapping.words.size(); ++index) {
    if (mapping.state(index) != MappingState::none) end_mapping(mapping, index);
  }
  const auto of_others = [&mapping](const OpenRevoke& revoke) { return revoke.mapping != &mapping; };
  session.unanswered.keep_if(of_others);
  session.unfinished.keep_if(of_others);
  tables_.detach(mapping);
  session.mappings.erase(mapping.table->id);
}

void PagerCore::State::wake(PagingSession& session) {
  if (session.woken || session.tickets.empty()) return;
  session.woken = true;
  woken_.push_back(&session);
}

void PagerCore::State::hear(SessionId session) {
  if (PagingSession* found = find_session(session)) hear(*found);
}

}  // namespace penstock
