// SPDX-License-Identifier: Apache-2.0
// Tables open and close. A closing table goes when the last of its frames has: those in flight are waited
// for.
#include <algorithm>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"

namespace penstock {

void PagerCore::State::on(const TableOpened& event) {
  const bool is_private = event.kind == TableKind::anonymous || event.kind == TableKind::overlay;
  PagingSession* owner = is_private ? find_session(event.owner) : nullptr;
  // The owner may have gone while the request for the table was under way.
  if (is_private && owner == nullptr) return;
  tables_.open(event, owner);
}

void PagerCore::State::on(const TableClosed& event) {
  PagedTable* table = tables_.find(event.table);
  // A private table went with its owner.
  if (table == nullptr || table->closing) return;
  close(*table, EvictReason::table_closed);
}

void PagerCore::State::on(const Prioritize& event) {
  const PagedTable* table = tables_.find(event.table);
  if (table != nullptr && !table->closing) tables_.policy().prioritized(event.table);
}

void PagerCore::State::on(const SetSourcePlace& event) {
  const PagedTable* table = tables_.find(event.table);
  if (table != nullptr && !table->closing) tables_.policy().source_moved(event.table, event.place);
}

void PagerCore::State::close(PagedTable& table, EvictReason reason) {
  while (TicketRecord* ticket = table.tickets.first()) {
    finish(*ticket, TicketResult::cancelled, FailureKind::closing);
  }
  // Who wanted to copy from it is refused when it is that ticket's turn, which may be after the table has
  // gone.
  TicketRecord* head = faults_.first();
  if (head != nullptr && head->holds_source && head->table->origin == table.id) drop_source(*head);
  tables_.start_closing(table, reason);
  closing_.push_back(&table);
}

bool PagerCore::State::work_on_closing_tables() {
  bool moved = false;
  for (std::size_t place = 0; place < closing_.size();) {
    PagedTable& table = *closing_[place];
    while (table.close_next < table.pages.size() && out_.has_room()) {
      moved |= close_page(table, table.close_next);
      ++table.close_next;
    }
    // An evict request that names the table still looks at it.
    if (table.close_next < table.pages.size() || table.used > 0 || !table.tickets.empty()) {
      ++place;
      continue;
    }
    closing_.erase(closing_.begin() + static_cast<std::ptrdiff_t>(place));
    tables_.erase(table);
    moved = true;
  }
  return moved;
}

// A frame that is being created, filled or read by a copy goes when that is over.
bool PagerCore::State::close_page(PagedTable& table, std::uint32_t index) {
  const PageEntry& page = table.pages[index];
  if (page.state == PageState::loading) {
    out_.push(CancelLoad{.page = table.key(index), .generation = Generation{page.generation}});
    return true;
  }
  if (page.state != PageState::resident || page.holds > 0) return false;
  evict(table, index, table.close_reason);
  return true;
}

}  // namespace penstock
