// SPDX-License-Identifier: Apache-2.0
// Deadlines. A session that leaves a revoke or a batch unanswered for too long is stuck until it speaks.
#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {
namespace {

// A request waits behind the batch. Else the client may acknowledge it with whatever it says next, however late.
bool is_awaited(const PagingSession& session) {
  return session.batch.open && !session.batch.expired &&
         (session.tickets.first() != nullptr || PLANTED(owed_is_stuck));
}

}  // namespace

std::optional<Nanoseconds> PagerCore::State::next_deadline() {
  std::optional<Nanoseconds> next;
  const auto sooner = [&next](Nanoseconds deadline) {
    if (!next || deadline < *next) next = deadline;
  };
  for (const auto& [id, session] : sessions_) {
    if (is_awaited(*session)) sooner(session->batch.sent + options_.revoke_deadline);
    if (session->mapped == 0) continue;
    if (const OpenRevoke* revoke = session->unfinished.oldest(is_unfinished)) {
      sooner(revoke->sent + options_.cooperative_deadline);
    }
    if (session->stuck) continue;
    if (const OpenRevoke* revoke = session->unanswered.oldest(is_unanswered)) {
      sooner(revoke->sent + options_.revoke_deadline);
    }
  }
  return next;
}

void PagerCore::State::on(const Tick&) {
  for (const auto& [id, found] : sessions_) {
    PagingSession& session = *found;
    // A copy: what follows changes the queue.
    while (const OpenRevoke* oldest = session.unfinished.oldest(is_unfinished)) {
      const OpenRevoke revoke = *oldest;
      if (now_ - revoke.sent < options_.cooperative_deadline) break;
      tables_.set_mapping(*revoke.mapping, revoke.index, MappingState::overdue);
      wake(session);
    }
    if (is_awaited(session) && now_ - session.batch.sent >= options_.revoke_deadline) expire_batch(session);
    if (session.stuck) continue;
    const OpenRevoke* revoke = session.unanswered.oldest(is_unanswered);
    if (revoke != nullptr && now_ - revoke->sent >= options_.revoke_deadline) become_stuck(session);
  }
}

void PagerCore::State::become_stuck(PagingSession& session) {
  if (session.stuck) return;
  tables_.set_stuck(session, true);
  out_.push(SessionStuck{.session = session.id, .stuck = true, .pages = session.mapped});
  wake(session);
}

// Nobody waits for a client that doesn't: what its requests hold is free for others.
void PagerCore::State::expire_batch(PagingSession& session) {
  session.batch.expired = true;
  for (TicketRecord* ticket = session.tickets.first(); ticket != nullptr;) {
    TicketRecord* next = SessionTickets::after(*ticket);
    finish(*ticket, TicketResult::offloaded, FailureKind::revoke_timeout);
    ticket = next;
  }
  become_stuck(session);
}

void PagerCore::State::hear(PagingSession& session) {
  if (!session.stuck) return;
  tables_.set_stuck(session, false);
  session.unanswered.for_each([this](OpenRevoke& revoke) { revoke.sent = now_; });
  if (session.batch.open) {
    session.batch.expired = false;
    session.batch.sent = now_;
  }
  out_.push(SessionStuck{.session = session.id, .stuck = false, .pages = session.mapped});
  wake(session);
}

}  // namespace penstock
