// SPDX-License-Identifier: Apache-2.0
// Evictions: revoke, answers, the end. Answers are client input: one that doesn't fit the record is ignored.
#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {

void PagerCore::State::start_eviction(PageKey victim, EvictReason reason) {
  PagedTable* table = tables_.find(victim.table);
  CHECK(table != nullptr && victim.index < table->pages.size());
  const std::uint32_t index = victim.index;
  CHECK((PageTables::classify(*table, table->pages[index]) &
         static_cast<std::uint16_t>(PageClass::evictable)) != 0);
  if (table->pages[index].mappers == 0) return evict(*table, index, reason);
  tables_.change(*table, index, [reason](PageEntry& page) {
    page.state = PageState::evicting;
    page.reason = reason;
  });
  const Generation generation{table->pages[index].generation};
  say_changed(*table, index);
  for (TableMapping* mapping : table->mappers) {
    // Who has not yet answered an earlier revoke of it owes one answer, not two.
    if (mapping->state(index) != MappingState::granted) continue;
    tables_.set_mapping(*mapping, index, MappingState::revoking);
    PagingSession& session = *mapping->session;
    const OpenRevoke revoke{
        .mapping = mapping, .index = index, .serial = mapping->serial(index), .sent = now_};
    session.unanswered.push(revoke, is_unanswered);
    if (mapping->mode == RevokeMode::cooperative) session.unfinished.push(revoke, is_unfinished);
    out_.push(Revoke{.session = session.id, .page = victim, .generation = generation});
  }
}

// The page stays. Sessions that have acknowledged have lost their mapping; those that have not may still
// answer.
void PagerCore::State::give_up_eviction(PagedTable& table, std::uint32_t index) {
  count_refusal(table.pages[index].reason);
  tables_.change(table, index, [](PageEntry& page) { page.state = PageState::resident; });
  say_changed(table, index);
}

// Bounds how often one request can be put off by clients that say busy and idle in turn.
void PagerCore::State::count_refusal(EvictReason reason) {
  TicketRecord* asker = nullptr;
  if (reason == EvictReason::fault) asker = faults_.first();
  if (reason == EvictReason::prefetch) asker = prefetches_.first();
  if (reason == EvictReason::request) asker = evicts_.first();
  if (reason == EvictReason::budget) asker = budget_ticket_;
  if (asker != nullptr) ++asker->refusals;
}

void PagerCore::State::on(const Acked& event) {
  hear(event.session);
  TableMapping* mapping = find_mapping(event.session, event.page);
  if (mapping == nullptr || mapping->state(event.page.index) == MappingState::none) return;
  const PageEntry& page = mapping->table->pages[event.page.index];
  if (page.generation != raw(event.generation) && !PLANTED(stale_generation_accepted)) return;
  end_mapping(*mapping, event.page.index);
}

void PagerCore::State::on(const Busy& event) {
  hear(event.session);
  TableMapping* mapping = find_mapping(event.session, event.page);
  if (mapping == nullptr) return;
  const std::uint32_t index = event.page.index;
  PagedTable& table = *mapping->table;
  const MappingState state = mapping->state(index);
  const bool asked =
      state == MappingState::revoking || state == MappingState::later || state == MappingState::overdue;
  if (!asked || table.pages[index].generation != raw(event.generation)) return;
  if (PLANTED(pinned_page_taken)) return end_mapping(*mapping, index);
  if (event.later && mapping->mode == RevokeMode::cooperative) {
    if (state == MappingState::revoking) tables_.set_mapping(*mapping, index, MappingState::later);
  } else {
    tables_.set_mapping(*mapping, index, MappingState::busy);
    if (table.pages[index].state == PageState::evicting) give_up_eviction(table, index);
  }
  wake(*mapping->session);
}

void PagerCore::State::on(const Idle& event) {
  hear(event.session);
  TableMapping* mapping = find_mapping(event.session, event.page);
  if (mapping == nullptr || mapping->state(event.page.index) != MappingState::busy) return;
  tables_.set_mapping(*mapping, event.page.index, MappingState::granted);
}

void PagerCore::State::on(const Release& event) {
  hear(event.session);
  TableMapping* mapping = find_mapping(event.session, event.page);
  if (mapping == nullptr || mapping->state(event.page.index) == MappingState::none) return;
  const std::uint32_t index = event.page.index;
  PagedTable& table = *mapping->table;
  const PageEntry& page = table.pages[index];
  if (page.generation != raw(event.generation)) return;
  end_mapping(*mapping, index);
  if (page.state != PageState::resident || page.mappers > 0) return;
  if (!table.is_private() && !event.drop_if_last) return;
  if (page.holds == 0) return evict(table, index, EvictReason::released);
  if (table.is_private()) table.pages[index].drop_unheld = true;
}

void PagerCore::State::end_mapping(TableMapping& mapping, std::uint32_t index) {
  tables_.set_mapping(mapping, index, MappingState::none);
  if (mapping.table->pages[index].mappers == 1) say_sharing(*mapping.table, index);
  finish_if_unmapped(*mapping.table, index);
  wake(*mapping.session);
}

void PagerCore::State::finish_if_unmapped(PagedTable& table, std::uint32_t index) {
  const PageEntry& page = table.pages[index];
  if (page.state != PageState::evicting || (page.mappers > 0 && !PLANTED(early_destroy))) return;
  evict(table, index, page.reason);
}

// Nobody maps the page: its frame goes.
void PagerCore::State::evict(PagedTable& table, std::uint32_t index, EvictReason reason) {
  PageEntry& page = table.pages[index];
  page.evicted_before = true;
  page.drop_unheld = false;
  credit_destroyed(table, reason);
  ++counts_.evictions;
  const Evicted evicted{
      .page = table.key(index), .reason = reason, .refaultable = !table.is_private() && !table.closing};
  TicketRecord* waiting = faults_.first();
  if (PLANTED(frame_reused) && waiting != nullptr && waiting->kind == TicketKind::fault && waiting->holding &&
      waiting->take_next < waiting->end &&
      waiting->table->pages[waiting->take_next].state == PageState::absent) {
    tables_.change(table, index, [](PageEntry& entry) { entry.state = PageState::absent; });
    const std::uint32_t next = waiting->take_next++;
    tables_.change(*waiting->table, next, [](PageEntry& entry) { entry.state = PageState::creating; });
    waiting->table->pages[next].frame = page.frame;
    return fill_frame(*waiting->table, next, page.frame);
  }
  destroy_frame(table, index);
  out_.push(evicted);
  say_changed(table, index);
}

}  // namespace penstock
