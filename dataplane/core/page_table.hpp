// SPDX-License-Identifier: Apache-2.0
// The pages of one table, and who has mapped them.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/core/pager_events.hpp"
#include "dataplane/core/ticket_record.hpp"

namespace penstock {

enum class PageState : std::uint8_t { absent, creating, loading, copying, resident, evicting };

constexpr Residency residency_of(PageState state) {
  switch (state) {
    case PageState::absent: return Residency::absent;
    case PageState::creating:
    case PageState::loading:
    case PageState::copying: return Residency::loading;
    case PageState::resident: return Residency::resident;
    case PageState::evicting: return Residency::evicting;
  }
  return Residency::absent;
}
constexpr bool in_flight(PageState state) { return residency_of(state) == Residency::loading; }

// One a page: there may be a hundred thousand. The four last counts follow from the mappings
// (session_record.hpp).
struct PageEntry {
  std::uint64_t generation = 0;
  FrameId frame{};            // Valid from loading on.
  std::uint32_t holds = 0;    // By tickets and by copies that read it.
  std::uint16_t mappers = 0;  // Sessions that have it granted.
  std::uint16_t busy = 0;     // Of these: answered busy,
  std::uint16_t slow = 0;     // answered `later`,
  std::uint16_t blocked = 0;  // stuck or overdue.
  PageState state = PageState::absent;
  EvictReason reason = EvictReason::fault;  // While evicting.
  bool bulk : 1 = false;                    // Is read for a prefetch.
  bool evicted_before : 1 = false;
  bool drop_unheld : 1 = false;   // Released while held: destroyed when neither held nor mapped.
  bool doomed : 1 = false;        // Was being filled when a writer's loss had been noticed elsewhere.
  bool holds_source : 1 = false;  // Creating or copying: the origin's page is held for it.
};
static_assert(sizeof(PageEntry) <= 32);

struct TableMapping;

struct PagedTable {
  TableId id{};
  TableKind kind = TableKind::file;
  bool closing = false;
  EvictReason close_reason = EvictReason::table_closed;
  TableId origin{};
  PagingSession* owner = nullptr;  // Private tables, while the owner lives.
  std::uint32_t used = 0;
  std::uint32_t resident = 0;
  std::uint32_t close_next = 0;  // Closing: pages below have been dealt with.
  std::vector<PageEntry> pages;
  std::vector<TableMapping*> mappers;  // One a session that is attached.
  TableTickets tickets;

  bool is_private() const { return kind == TableKind::anonymous || kind == TableKind::overlay; }
  PageKey key(std::uint32_t index) const { return {.table = id, .index = index}; }
};

}  // namespace penstock
