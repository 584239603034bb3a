// SPDX-License-Identifier: Apache-2.0
// The budget and requests to evict. Both take victims by the policy's order and leave what is in use.
#include <algorithm>

#include "dataplane/core/pager_state.hpp"

namespace penstock {
namespace {

constexpr std::uint32_t refusals_spare = 64;

}  // namespace

void PagerCore::State::on(const SetBudget& event) {
  // Only the newest counts.
  if (budget_ticket_ != nullptr) finish(*budget_ticket_, TicketResult::cancelled, FailureKind::cancelled);
  budget_ = event.frames;
  exhausted_until_ = {};
  TicketRecord& ticket = tickets_.acquire();
  ticket.id = event.ticket;
  ticket.kind = TicketKind::budget;
  ticket.end = event.frames;
  budget_ticket_ = &ticket;
}

bool PagerCore::State::shrink_to_budget() {
  bool moved = false;
  while (used() > std::uint64_t{budget_} + leaving() && out_.has_room()) {
    if (budget_ticket_ != nullptr && budget_ticket_->refusals > used() + refusals_spare) return moved;
    const std::optional<PageKey> victim = tables_.policy().victim(std::nullopt);
    if (!victim) return moved;
    start_eviction(*victim, EvictReason::budget);
    moved = true;
  }
  return moved;
}

// Last of all: whether anything more can be taken shows when nothing moves any more.
bool PagerCore::State::finish_budget() {
  if (budget_ticket_ == nullptr) return false;
  TicketRecord& ticket = *budget_ticket_;
  const bool exhausted = ticket.refusals > used() + refusals_spare;
  if (used() > budget_ && help_is_coming(nullptr) && !exhausted) return false;
  finish(ticket, TicketResult::done, FailureKind::internal, used() > budget_ ? used() - budget_ : 0);
  return true;
}

void PagerCore::State::on(const EvictRequest& event) {
  PagedTable* table = event.any_table ? nullptr : tables_.find(event.table);
  if (!event.any_table && (table == nullptr || table->closing)) {
    out_.push(
        Complete{.ticket = event.ticket, .result = TicketResult::failed, .reason = FailureKind::not_found});
    return;
  }
  TicketRecord& ticket = tickets_.acquire();
  ticket.id = event.ticket;
  ticket.kind = TicketKind::evict;
  ticket.table = table;
  if (table != nullptr) table->tickets.push_back(ticket);
  ticket.end = std::min(event.frames, frames_in_scope(ticket));
  enqueue(ticket);
}

// Whether it is a victim is what the policy's set says too: resident, not held, not in use, no answer owed.
void PagerCore::State::on(const EvictPage& event) {
  PagedTable* table = tables_.find(event.page.table);
  if (table == nullptr || event.page.index >= table->pages.size()) return;
  const PageEntry& page = table->pages[event.page.index];
  if (page.generation != raw(event.generation)) return;
  if (is(PageTables::classify(*table, page), PageClass::evictable))
    start_eviction(event.page, EvictReason::request);
}

// One request at a time. Doesn't wait for loads, tickets, or clients that have answered `later`.
bool PagerCore::State::serve_evict_request() {
  TicketRecord* ticket = evicts_.first();
  if (ticket == nullptr) return false;
  const std::optional<TableId> only =
      ticket->table == nullptr ? std::nullopt : std::optional(ticket->table->id);
  bool moved = false;
  while (ticket->frames + tables_.total(PageClass::requested) < ticket->end && out_.has_room()) {
    if (ticket->refusals > used() + refusals_spare) break;
    const std::optional<PageKey> victim = tables_.policy().victim(only);
    if (!victim) break;
    start_eviction(*victim, EvictReason::request);
    moved = true;
  }
  if (tables_.total(PageClass::requested) > 0 || !out_.has_room()) return moved;
  const std::uint32_t missing = ticket->end - std::min(ticket->end, ticket->frames);
  finish(*ticket, TicketResult::done, FailureKind::internal, std::min(missing, frames_in_scope(*ticket)));
  return true;
}

std::uint32_t PagerCore::State::frames_in_scope(const TicketRecord& request) const {
  return request.table == nullptr ? used() : request.table->used;
}

void PagerCore::State::credit_destroyed(const PagedTable& table, EvictReason reason) {
  if (reason == EvictReason::budget && budget_ticket_ != nullptr) ++budget_ticket_->frames;
  TicketRecord* request = evicts_.first();
  const bool asked = reason == EvictReason::request && request != nullptr &&
                     (request->table == nullptr || request->table == &table);
  if (asked) ++request->frames;
}

}  // namespace penstock
