// SPDX-License-Identifier: Apache-2.0
// What clients say. All of it is input: what the core requires is checked here.
#include <utility>

#include "dataplane/pager/pager.hpp"

namespace penstock {

PeerSession* Pager::find_session(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Pager::serve(SessionId id) {
  for (std::uint32_t message = 0; message < options_.messages_per_turn; ++message) {
    PeerSession* session = find_session(id);
    if (session == nullptr || session->gone) return;
    const Result<std::optional<PeerDatagram>> received = session->port().receive();
    if (!received) {
      return lose(*session, received.error().code == Errc::closed ? FailureKind::disconnected
                                                                  : FailureKind::protocol_violation);
    }
    if (!*received) return;
    const PeerDatagram& datagram = **received;
    if (datagram.acknowledges != 0) take(*session, PeerGranted{datagram.acknowledges});
    if (session->gone) return;
    std::visit([&](const auto& content) { take(*session, content); }, datagram.message);
    // Who has just been answered has seldom said more, and looking would keep it waiting where it shares the processor.
    if (has_unsettled()) return;
  }
}

void Pager::take(PeerSession& session, const PeerFault& message) {
  const Attachment* table = requested(session, message.request, message.table, message.first, message.count);
  if (table == nullptr) return;
  // Private copies come from make_private alone.
  if (table->kind == TableKind::overlay)
    return refuse(session, message.request, FailureKind::invalid_argument);
  ++session.open_requests;
  const Ticket ticket = requests_.open({.kind = OpenRequest::Kind::fault,
                                        .session = session.id(),
                                        .peer_request = message.request,
                                        .table = table->table,
                                        .first = message.first,
                                        .received = now_});
  feed(Fault{.ticket = ticket,
             .session = session.id(),
             .table = table->table,
             .first = message.first,
             .count = message.count});
}

void Pager::take(PeerSession& session, const PeerPrefetch& message) {
  const Attachment* table = requested(session, message.request, message.table, message.first, message.count);
  if (table == nullptr) return;
  if (table->kind == TableKind::overlay || table->kind == TableKind::anonymous) {
    return refuse(session, message.request, FailureKind::invalid_argument);
  }
  ++session.open_requests;
  const Ticket ticket = requests_.open({.kind = OpenRequest::Kind::prefetch,
                                        .session = session.id(),
                                        .peer_request = message.request,
                                        .table = table->table,
                                        .first = message.first,
                                        .received = now_});
  feed(Prefetch{.ticket = ticket, .table = table->table, .first = message.first, .count = message.count});
}

void Pager::take(PeerSession& session, const PeerMakePrivate& message) {
  const Attachment* shared = requested(session, message.request, message.table, message.first, message.count);
  if (shared == nullptr) return;
  const Attachment* overlay = session.overlay_of(shared->table);
  if (overlay == nullptr) return refuse(session, message.request, FailureKind::invalid_argument);
  ++session.open_requests;
  const Ticket ticket = requests_.open({.kind = OpenRequest::Kind::make_private,
                                        .session = session.id(),
                                        .peer_request = message.request,
                                        .table = overlay->table,
                                        .first = message.first,
                                        .received = now_});
  feed(MakePrivate{.ticket = ticket,
                   .session = session.id(),
                   .table = overlay->table,
                   .first = message.first,
                   .count = message.count});
}

void Pager::take(PeerSession& session, const PeerGranted& message) {
  if (!session.outbox().acknowledge(message.batch)) return violate(session);
  feed(Granted{.session = session.id(), .batch = message.batch});
}

void Pager::take(PeerSession& session, const PeerAcked& message) {
  const Attachment* table = named(session, message.table, message.page, 1);
  if (table == nullptr) return;
  const PageKey page{.table = table->table, .index = message.page};
  if (session.outbox().holds(page, Generation{message.generation})) return violate(session);
  session.record_end(page, Generation{message.generation});
  feed(Acked{.session = session.id(), .page = page, .generation = Generation{message.generation}});
}

void Pager::take(PeerSession& session, const PeerBusy& message) {
  const Attachment* table = named(session, message.table, message.page, 1);
  if (table == nullptr) return;
  feed(Busy{.session = session.id(),
            .page = {.table = table->table, .index = message.page},
            .generation = Generation{message.generation},
            .later = message.later});
}

void Pager::take(PeerSession& session, const PeerIdle& message) {
  const Attachment* table = named(session, message.table, message.page, 1);
  if (table == nullptr) return;
  feed(Idle{.session = session.id(), .page = {.table = table->table, .index = message.page}});
}

void Pager::take(PeerSession& session, const PeerRelease& message) {
  const Attachment* table = named(session, message.table, message.page, 1);
  if (session.gone) return;
  if (table == nullptr) {  // Closed meanwhile: the frame went with it.
    if (message.request != 0) refuse(session, message.request, FailureKind::not_found);
    return;
  }
  const PageKey page{.table = table->table, .index = message.page};
  if (session.outbox().holds(page, Generation{message.generation})) return violate(session);
  session.record_end(page, Generation{message.generation});
  released_page_ = page;
  released_destroyed_ = false;
  feed(Release{.session = session.id(),
               .page = page,
               .generation = Generation{message.generation},
               .drop_if_last = message.drop_if_last});
  released_page_.reset();
  if (message.request == 0) return;
  session.outbox().send(OutgoingCompletion{
      .wire = {.request = message.request, .released_bytes = released_destroyed_ ? device_.frame_bytes : 0},
      .fault_received = std::nullopt});
  after_sending(session);
}

void Pager::take(PeerSession& session, const PeerPrioritize& message) {
  const Attachment* table = named(session, message.table);
  if (table != nullptr) feed(Prioritize{.table = table->table});
}

void Pager::take(PeerSession& session, const PeerCutoff& message) {
  const Attachment* table = named(session, message.table);
  if (table != nullptr) {
    feed(SetCutoff{.session = session.id(), .table = table->table, .pages = message.pages});
  }
}

void Pager::take(PeerSession& session, const PeerCancel& message) {
  const std::optional<Ticket> ticket = requests_.find(session.id(), message.request);
  if (ticket) feed(Cancel{.ticket = *ticket, .reason = FailureKind::cancelled});
}

// The table that a client names, and pages of it. Null when it has been closed meanwhile, or when the name ended the
// session.
Attachment* Pager::named(PeerSession& session, std::uint32_t number, std::uint32_t first,
                         std::uint32_t count) {
  const TableNumber table{number};
  Attachment* found = session.find(table);
  if (found == nullptr && !session.had(table)) {
    // The service attached it before the client could name it: the message is in the mailbox.
    take_mail();
    found = session.find(table);
  }
  if (session.gone || (found == nullptr && session.had(table))) return nullptr;
  if (found == nullptr || first > found->pages || count > found->pages - first) {
    violate(session);
    return nullptr;
  }
  return found;
}

// As above, for a request, which is answered here when it can't be served.
Attachment* Pager::requested(PeerSession& session, std::uint64_t request, std::uint32_t table,
                             std::uint32_t first, std::uint32_t count) {
  Attachment* found = named(session, table, first, count);
  if (session.gone) return nullptr;
  std::optional<FailureKind> refusal;
  if (found == nullptr) {
    refusal = FailureKind::not_found;
  } else if (count == 0) {
    refusal = FailureKind::invalid_argument;
  } else if (stopping()) {
    refusal = FailureKind::closing;
  } else if (session.open_requests >= options_.requests_per_session) {
    refusal = FailureKind::busy;
  }
  if (!refusal) return found;
  refuse(session, request, *refusal);
  return nullptr;
}

void Pager::refuse(PeerSession& session, std::uint64_t request, FailureKind reason) {
  session.outbox().send(OutgoingCompletion{.wire = {.request = request,
                                                    .result = static_cast<std::uint8_t>(TicketResult::failed),
                                                    .reason = reason},
                                           .fault_received = std::nullopt});
  after_sending(session);
}

void Pager::lose(PeerSession& session, FailureKind reason) {
  if (std::exchange(session.gone, true)) return;
  watch_.remove(session.id(), session.port().fd());
  news_.answer(PeerGone{.session = session.id(), .reason = reason});
}

// What a send has left behind: faults that are over, pages that could not be handed over, a socket that is full.
void Pager::after_sending(PeerSession& session) {
  Outbox& outbox = session.outbox();
  unsettled_.insert(unsettled_.end(), outbox.completed_faults().begin(), outbox.completed_faults().end());
  outbox.completed_faults().clear();
  for (const UnsharedPage& page : outbox.unshared()) {
    session.record_end(page.page, page.generation);
    later(Release{
        .session = session.id(), .page = page.page, .generation = page.generation, .drop_if_last = false});
  }
  outbox.unshared().clear();
  if (const std::optional<std::uint32_t> batch = outbox.take_void_batch()) {
    later(Granted{.session = session.id(), .batch = *batch});
  }
  switch (outbox.state()) {
    case Outbox::State::gone: return lose(session, FailureKind::disconnected);
    case Outbox::State::overflow: return lose(session, FailureKind::protocol_violation);
    case Outbox::State::later:
      if (!retry_at_) retry_at_ = now_ + options_.retry_period;
      break;
    case Outbox::State::open:
    case Outbox::State::writable: break;
  }
  const bool watched = outbox.state() == Outbox::State::writable;
  if (session.gone || std::exchange(session.watched_for_writing, watched) == watched) return;
  watch_.set_writable(session.id(), session.port().fd(), watched);
}

}  // namespace penstock
