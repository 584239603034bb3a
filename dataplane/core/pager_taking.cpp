// SPDX-License-Identifier: Apache-2.0
// Who takes frames: the oldest fault, and when no fault waits, the oldest prefetch.
#include <algorithm>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t prefetch_window = 16;  // Pages of one prefetch on their way in at once.
constexpr std::uint32_t wanted_max = 128;      // How far ahead evictions are started.
constexpr std::uint32_t refusals_spare = 64;

}  // namespace

bool PagerCore::State::take_for_faults() {
  bool moved = false;
  while (TicketRecord* ticket = faults_.first()) {
    if (!out_.has_room()) return moved;
    const std::uint32_t before = ticket->take_next;
    const bool held = ticket->holding;
    if (!held) hold_range(*ticket);
    const Taken taken = ticket->kind == TicketKind::fault ? take_fault(*ticket) : take_private(*ticket);
    if (taken == Taken::refused) {
      moved = true;
      continue;
    }
    if (ticket->take_next != before || !held) wake(*ticket->session);
    if (taken == Taken::stalled) return moved || ticket->take_next != before || !held;
    settle(*ticket);
    moved = true;
  }
  return moved;
}

PagerCore::State::Taken PagerCore::State::take_fault(TicketRecord& ticket) {
  while (ticket.take_next < ticket.end) {
    if (!out_.has_room()) return Taken::stalled;
    const Taken taken = take_page(ticket, *ticket.table, ticket.take_next);
    if (taken != Taken::yes) return taken;
    tables_.policy().faulted(ticket.table->key(ticket.take_next));
    ++ticket.take_next;
  }
  return Taken::yes;
}

// Yes: the page is resident or on its way in. Refused: the ticket has been answered.
PagerCore::State::Taken PagerCore::State::take_page(TicketRecord& ticket, PagedTable& table,
                                                    std::uint32_t index) {
  const PageEntry& page = table.pages[index];
  if (page.state == PageState::evicting) {
    // A session that doesn't answer keeps the page where it is: then it can as well be used.
    if (page.slow == 0 && page.blocked == 0) return Taken::stalled;
    give_up_eviction(table, index);
  }
  if (page.state == PageState::resident && ticket.kind == TicketKind::fault) ++counts_.minor_grants;
  if (page.state != PageState::absent) return Taken::yes;
  const bool own_page = &table == ticket.table;
  if (own_page && index >= ticket.session->find(table.id)->cutoff) {
    finish(ticket, TicketResult::offloaded, FailureKind::offloaded);
    return Taken::refused;
  }
  if (table.is_private() && !has_quota(ticket)) {
    finish(ticket, TicketResult::offloaded, FailureKind::quota);
    return Taken::refused;
  }
  const Taken taken = take_absent(ticket, table, index, own_page ? frames_wanted(ticket) : 1);
  if (taken == Taken::yes) create_frame(table, index, false);
  return taken;
}

// Yes: there is a frame for the page.
PagerCore::State::Taken PagerCore::State::take_absent(TicketRecord& ticket, PagedTable& table,
                                                      std::uint32_t index, std::uint32_t wanted) {
  CHECK(table.pages[index].state == PageState::absent);
  const auto refuse = [&](FailureKind reason) {
    finish(ticket, TicketResult::offloaded, reason);
    return Taken::refused;
  };
  if (ticket.end - ticket.first > budget_ && !PLANTED(budget_overrun)) return refuse(FailureKind::never_fits);
  if (can_create()) return Taken::yes;
  const bool may_try = ticket.refusals <= used() + refusals_spare;
  if (may_try) make_room(wanted, EvictReason::fault);
  if (can_create()) return Taken::yes;
  if (leaving() > 0 || (may_try && help_is_coming(&ticket))) return Taken::stalled;
  if (PLANTED(starved_ticket)) return Taken::stalled;
  return refuse(ticket.creations_failed > 0 ? ticket.creation_failure : FailureKind::pinned);
}

bool PagerCore::State::has_quota(const TicketRecord& ticket) const {
  const PagingSession& session = *ticket.session;
  return session.private_frames_max == 0 || session.private_frames < session.private_frames_max;
}

// Those that the ticket still has to take and that have no frame, or one that leaves.
std::uint32_t PagerCore::State::frames_wanted(const TicketRecord& ticket) const {
  const std::uint32_t end = std::min(ticket.end, ticket.take_next + wanted_max);
  std::uint32_t wanted = 0;
  for (std::uint32_t index = ticket.take_next; index < end; ++index) {
    const PageState state = ticket.table->pages[index].state;
    wanted += state == PageState::absent || state == PageState::evicting ? 1 : 0;
  }
  return wanted;
}

// Starts evictions until `wanted` frames are free or about to be, or no victim is left.
void PagerCore::State::make_room(std::uint32_t wanted, EvictReason reason) {
  while (std::uint64_t{used()} + wanted > std::uint64_t{frame_limit()} + leaving() && out_.has_room()) {
    const std::optional<PageKey> victim = tables_.policy().victim(std::nullopt);
    if (!victim) return;
    start_eviction(*victim, reason);
  }
}

// Something that ends within a bound may free a frame or make one evictable: a revoke, a load, another
// ticket's hold.
bool PagerCore::State::help_is_coming(const TicketRecord* asking) const {
  const std::uint32_t own = asking != nullptr && asking->holding ? 1 : 0;
  return leaving() > 0 || tables_.total(PageClass::leaving_slow) > 0 ||
         tables_.total(PageClass::loose_load) > 0 || holding_tickets_ > own || !closing_.empty() ||
         !out_.has_room();
}

PagerCore::State::Taken PagerCore::State::take_private(TicketRecord& ticket) {
  while (ticket.take_next < ticket.end) {
    if (!out_.has_room()) return Taken::stalled;
    PagedTable* origin = tables_.find(ticket.table->origin);
    if (origin == nullptr || origin->closing || ticket.end > origin->pages.size()) {
      finish(ticket, TicketResult::failed, FailureKind::not_found);
      return Taken::refused;
    }
    const Taken taken = take_private_page(ticket, *origin);
    if (taken != Taken::yes) return taken;
    drop_source(ticket);  // If the page turned out to be private already.
    ++ticket.take_next;
  }
  return Taken::yes;
}

// One source at a time: first the origin's page is made resident and held, then the copy gets a frame.
PagerCore::State::Taken PagerCore::State::take_private_page(TicketRecord& ticket, PagedTable& origin) {
  PagedTable& table = *ticket.table;
  const std::uint32_t index = ticket.take_next;
  const PageEntry& page = table.pages[index];
  if (page.state == PageState::evicting) return take_page(ticket, table, index);
  if (page.state != PageState::absent) return Taken::yes;
  if (!has_quota(ticket)) {
    finish(ticket, TicketResult::offloaded, FailureKind::quota);
    return Taken::refused;
  }
  if (!ticket.holds_source) {
    ticket.holds_source = true;
    hold(origin, index);
  }
  const Taken source = take_page(ticket, origin, index);
  if (source != Taken::yes) return source;
  if (origin.pages[index].state != PageState::resident) return Taken::stalled;
  const Taken taken = take_absent(ticket, table, index, 1);
  if (taken != Taken::yes) return taken;
  ticket.holds_source = false;  // The hold is the copy's now.
  table.pages[index].holds_source = true;
  create_frame(table, index, false);
  return Taken::yes;
}

bool PagerCore::State::take_for_prefetches() {
  bool moved = false;
  while (faults_.empty() && out_.has_room()) {
    TicketRecord* ticket = prefetches_.first();
    if (ticket == nullptr) return moved;
    const std::uint32_t before = ticket->take_next;
    take_prefetch(*ticket);
    if (ticket->take_next < ticket->end) return moved || ticket->take_next != before;
    moved = true;
    settle(*ticket);
    pass_prefetched(*ticket);
  }
  return moved;
}

void PagerCore::State::take_prefetch(TicketRecord& ticket) {
  while (ticket.take_next < ticket.end && out_.has_room()) {
    const std::uint32_t index = ticket.take_next;
    const PageState state = ticket.table->pages[index].state;
    if (state == PageState::absent && !ticket.table->is_private()) {
      if (ticket.take_next - ticket.done_next >= prefetch_window) return;
      if (!can_create() && !room_for_prefetch(ticket)) return;
      create_frame(*ticket.table, index, true);
    }
    ++ticket.take_next;
    if (!in_flight(ticket.table->pages[index].state) && ticket.done_next == index) pass_prefetched(ticket);
  }
}

// False: it must wait, or, when nothing of lower value is left, it ends here.
bool PagerCore::State::room_for_prefetch(TicketRecord& ticket) {
  while (leaving() == 0 && !can_create()) {
    const std::optional<PageKey> victim = tables_.policy().victim(std::nullopt);
    const bool worth = victim && ticket.refusals <= used() + refusals_spare &&
                       tables_.policy().worth_evicting(ticket.table->key(ticket.take_next), *victim);
    if (!worth) {
      const bool device_says_so = frame_limit() < budget_;
      const bool is_too_long = ticket.end - ticket.first > budget_;
      ticket.cut_short = device_says_so ? exhausted_by_
                         : is_too_long  ? FailureKind::never_fits
                                        : FailureKind::pinned;
      ticket.end = ticket.take_next;
      return false;
    }
    start_eviction(*victim, EvictReason::prefetch);
  }
  return can_create();
}

// Pages that are there, in order; the answer when all are.
void PagerCore::State::pass_prefetched(TicketRecord& ticket) {
  while (ticket.done_next < ticket.take_next) {
    const PageState state = ticket.table->pages[ticket.done_next].state;
    if (in_flight(state)) return;
    if (state == PageState::resident) ++ticket.frames;
    ++ticket.done_next;
  }
  if (ticket.phase == TicketPhase::settled) finish(ticket, TicketResult::done, ticket.cut_short);
}

}  // namespace penstock
