// SPDX-License-Identifier: Apache-2.0
// Paging: pins under the lock, and what is answered when the service wants a page back.
#include <algorithm>

#include "service/client/paging.hpp"

namespace penstock {
namespace {

pst_event revoked_event(const PageName& page, std::uint32_t table) {
  pst_event event{};
  event.size = sizeof event;
  event.kind = PST_EVENT_REVOKED;
  event.table = table;
  event.page = page.page;
  return event;
}

}  // namespace

PinOutcome Paging::pin_locked(Table& table, PageSpan span) {
  const Table::PinAttempt attempt = table.pin(span);
  if (attempt.outcome != PinOutcome::done) unpin_locked(table, {span.first, attempt.pinned});
  return attempt.outcome;
}

PinOutcome Paging::pin_settled(Table& table, PageSpan span) {
  const Hold lock(*this);
  return pin_locked(table, span);
}

void Paging::unpin_locked(Table& table, PageSpan span) {
  // No region takes over while the lock is held.
  (void)table.unpin(
      span, [&](std::uint32_t page) { last_unpin_locked(table, page); }, [] {});
}

void Paging::last_unpin(Table& table, std::uint32_t page) {
  const Hold lock(*this);
  last_unpin_locked(table, page);
}

void Paging::last_unpin_locked(Table& table, std::uint32_t page) {
  if (table.inherited(page)) {
    // Its service is gone: it is unmapped now, unless somebody has pinned it again.
    while (!table.give_up(page) && !mark_wanted(table.word(page))) {
      const std::uint32_t state = pstw_pin_state(table.word(page).load(std::memory_order_relaxed));
      if (state == PSTW_PIN_UNMAPPED) return;
      if (state == PSTW_PIN_REVOKING || !table.mapper().quiet(page))
        return list({&table, {.page = page}, true});
    }
    return;
  }
  if (!table.take_busy(page)) return;
  const PageName name = table.name_of(page);
  send(PeerIdle{name.table, name.page});
}

void Paging::answer_revoke(Table& table, const PageName& page) {
  while (true) {
    const bool later =
        table.cooperative() && (!idle_.load(std::memory_order_relaxed) || !table.mapper().quiet(page.page));
    if (!later && table.give_up(page.page)) {
      send(PeerAcked{page.table, page.page, page.generation});
      return events_.add(revoked_event(page, table.attachment().number));
    }
    if (mark_wanted(table.word(page.page))) {
      table.set_busy(page.page);
      send(PeerBusy{page.table, page.page, page.generation, false});
      return;
    }
    const std::uint32_t state = pstw_pin_state(table.word(page.page).load(std::memory_order_relaxed));
    // Revoking: the kernel refused to unmap it; it is tried again, and the service counts us as stuck until then.
    if (!later && state == PSTW_PIN_MAPPED) continue;
    list({&table, page});
    if (later) send(PeerBusy{page.table, page.page, page.generation, true});
    return socket_.wake_waiters();
  }
}

void Paging::list(Listed one) {
  listed_.push_back(one);
  listed_count_.store(static_cast<std::uint32_t>(listed_.size()), std::memory_order_relaxed);
}

void Paging::run_revokes() {
  const Hold lock(*this);
  run_listed(true);
}

void Paging::run_listed(bool cooperative) {
  if (listed_.empty()) return;
  std::erase_if(listed_, [&](const Listed& one) {
    if (!cooperative && one.table->cooperative() && !idle_.load(std::memory_order_relaxed)) return false;
    if (one.inherited) {
      return !one.table->inherited(one.page.page) || one.table->give_up(one.page.page) ||
             mark_wanted(one.table->word(one.page.page));
    }
    const PageName now = one.table->name_of(one.page.page);
    // Given back meanwhile: the release was the answer.
    if (now.table != one.page.table || now.generation != one.page.generation) return true;
    if (!one.table->give_up(one.page.page)) return false;
    if (one.unfinished) {
      release(one.page);
      return true;
    }
    send(PeerAcked{one.page.table, one.page.page, one.page.generation});
    events_.add(revoked_event(one.page, one.table->attachment().number));
    return true;
  });
  listed_count_.store(static_cast<std::uint32_t>(listed_.size()), std::memory_order_relaxed);
}

void Paging::drop_listed(const Table& table) {
  std::erase_if(listed_, [&](const Listed& one) { return one.table == &table; });
  listed_count_.store(static_cast<std::uint32_t>(listed_.size()), std::memory_order_relaxed);
}

void Paging::set_idle(bool idle) {
  const Hold lock(*this);
  idle_.store(idle, std::memory_order_relaxed);
  if (!idle) return;
  for (const auto& [number, table] : tables_) table->mapper().forget_work();
  run_listed(true);
}

bool Paging::unpin(Table& table, PageSpan span) {
  if (span.count > 1 && !table.pinned(span)) return false;
  const bool done = table.unpin(
      span, [&](std::uint32_t page) { last_unpin(table, page); }, [&] { settle(); });
  if (table.cooperative() && revokes_wait()) [[unlikely]]
    run_revokes();
  return done;
}

}  // namespace penstock
