// SPDX-License-Identifier: Apache-2.0
// The numbered invariants of the pager core (DESIGN.md). Linear in pages: tests and simulation.
#include <map>
#include <set>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"

namespace penstock {

void PagerCore::State::verify() {
  std::array<std::uint32_t, page_classes> totals{};
  std::set<FrameId> frames;
  std::map<PagingSession*, std::uint32_t> private_frames;
  tables_.for_each([&](const PagedTable& table) {
    verify_table(table, totals);
    for (const PageEntry& page : table.pages) {
      const bool has_frame = page.state != PageState::absent && page.state != PageState::creating;
      if (has_frame) CHECK(frames.insert(page.frame).second);  // C2
      if (table.owner != nullptr && page.state != PageState::absent) ++private_frames[table.owner];
    }
  });
  for (std::size_t place = 0; place < page_classes; ++place) {
    if (static_cast<PageClass>(1u << place) == PageClass::evictable)
      continue;  // Checked page by page, against the policy.
    CHECK(totals[place] == tables_.total(static_cast<PageClass>(1u << place)));  // C1
  }
  for (const auto& [id, session] : sessions_) {
    const auto counted = private_frames.find(session.get());
    CHECK(session->private_frames == (counted == private_frames.end() ? 0 : counted->second));  // C1
    CHECK(session->private_frames_max == 0 || session->private_frames <= session->private_frames_max);
  }
  verify_holds();
  verify_sessions();
  verify_tickets();
}

void PagerCore::State::verify_table(const PagedTable& table,
                                    std::array<std::uint32_t, page_classes>& totals) {
  std::uint32_t used = 0, resident = 0;
  for (std::uint32_t index = 0; index < table.pages.size(); ++index) {
    const PageEntry& page = table.pages[index];
    const std::uint16_t classes = PageTables::classify(table, page);
    for (std::size_t place = 0; place < page_classes; ++place) totals[place] += classes >> place & 1;
    used += is(classes, PageClass::used) ? 1 : 0;
    resident += is(classes, PageClass::resident) ? 1 : 0;
    std::uint32_t mappers = 0, busy = 0, slow = 0, blocked = 0, open = 0;
    for (const TableMapping* mapping : table.mappers) {
      const MappingState state = mapping->state(index);
      const MappingWeight weight = weight_of(state, mapping->session->stuck);
      mappers += state != MappingState::none ? 1 : 0;
      open +=
          state == MappingState::revoking || state == MappingState::later || state == MappingState::overdue;
      busy += weight == MappingWeight::busy ? 1 : 0;
      slow += weight == MappingWeight::slow ? 1 : 0;
      blocked += weight == MappingWeight::blocked ? 1 : 0;
    }
    CHECK(page.mappers == mappers && page.busy == busy && page.slow == slow &&
          page.blocked == blocked);  // C3
    const bool mappable = page.state == PageState::resident || page.state == PageState::evicting;
    CHECK(mappers == 0 || mappable);                                               // C4
    CHECK(page.state != PageState::evicting || (open == mappers && mappers > 0));  // C5
    CHECK(page.state != PageState::resident || page.generation > 0);
    CHECK(!page.holds_source || page.state == PageState::creating || page.state == PageState::copying);
    CHECK(!table.closing || mappers == 0);
  }
  CHECK(table.used == used && table.resident == resident);  // C1
}

// C6: holds are those of tickets and of copies.
void PagerCore::State::verify_holds() {
  std::map<PageKey, std::uint32_t> holds;
  std::uint32_t holding = 0;
  tickets_.for_each([&](const TicketRecord& ticket) {
    if (ticket.holds_source) ++holds[{.table = ticket.table->origin, .index = ticket.take_next}];
    if (!ticket.holding) return;
    ++holding;
    for (std::uint32_t index = ticket.first; index < ticket.end; ++index) ++holds[ticket.table->key(index)];
  });
  tables_.for_each([&](const PagedTable& table) {
    for (std::uint32_t index = 0; index < table.pages.size(); ++index) {
      if (table.pages[index].holds_source) ++holds[{.table = table.origin, .index = index}];
    }
  });
  CHECK(holding == holding_tickets_);
  tables_.for_each([&](const PagedTable& table) {
    for (std::uint32_t index = 0; index < table.pages.size(); ++index) {
      const auto found = holds.find(table.key(index));
      CHECK(table.pages[index].holds == (found == holds.end() ? 0 : found->second));
    }
  });
}

void PagerCore::State::verify_sessions() {
  for (const auto& [id, session] : sessions_) {
    std::uint32_t mapped = 0, unanswered = 0, unfinished = 0;
    for (const auto& [table, mapping] : session->mappings) {
      for (std::uint32_t index = 0; index < mapping->words.size(); ++index) {
        const MappingState state = mapping->state(index);
        mapped += state != MappingState::none ? 1 : 0;
        unanswered += state == MappingState::revoking ? 1 : 0;
        const bool cooperative = mapping->mode == RevokeMode::cooperative;
        unfinished +=
            cooperative && (state == MappingState::revoking || state == MappingState::later) ? 1 : 0;
        CHECK(cooperative || (state != MappingState::later && state != MappingState::overdue));
      }
    }
    CHECK(session->mapped == mapped);
    // C7: each open revoke has a deadline.
    session->unanswered.for_each(
        [&](const OpenRevoke& revoke) { unanswered -= is_unanswered(revoke) ? 1 : 0; });
    session->unfinished.for_each(
        [&](const OpenRevoke& revoke) { unfinished -= is_unfinished(revoke) ? 1 : 0; });
    CHECK(unanswered == 0 && unfinished == 0);
    const GrantBatch& batch = session->batch;
    CHECK(batch.ticket == nullptr || (batch.open && batch.ticket->session == session.get()));  // C8
    CHECK(!batch.expired || (batch.open && session->stuck));
  }
}

void PagerCore::State::verify_tickets() {
  tickets_.for_each([&](const TicketRecord& ticket) {
    CHECK(ticket.first <= ticket.done_next && ticket.done_next <= ticket.take_next &&
          ticket.take_next <= ticket.end);
    const bool grants = ticket.kind == TicketKind::fault || ticket.kind == TicketKind::make_private;
    if (!grants) return;
    // C9: of the faults that still take frames only the oldest holds anything.
    if (ticket.phase == TicketPhase::taking && faults_.first() != &ticket) CHECK(!ticket.holding);
    if (ticket.phase != TicketPhase::taking) CHECK(ticket.holding && ticket.take_next == ticket.end);
    if (!ticket.holding) return;
    for (std::uint32_t index = ticket.first; index < ticket.take_next; ++index) {
      const PageState state = ticket.table->pages[index].state;
      CHECK(state == PageState::resident || in_flight(state));  // C11: what a ticket has taken stays.
    }
    for (std::uint32_t index = ticket.first; index < ticket.done_next; ++index) {
      CHECK(ticket.table->pages[index].state == PageState::resident);
    }
  });
  // C12: what could be done has been done, unless the buffer was full.
  if (more_ || out_.waits()) return;
  CHECK(woken_.empty());
  const bool victims = tables_.policy().victim(std::nullopt).has_value();
  if (used() > std::uint64_t{budget_} + leaving() && budget_ticket_ == nullptr) CHECK(!victims);
}

}  // namespace penstock
