// SPDX-License-Identifier: Apache-2.0
// PageTables: all tables of the device, and the totals over their pages.
//
// Every change of a page goes through change(), which keeps the totals and the policy's set of evictable
// pages equal to what the pages say. Commands are not its business.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "dataplane/core/eviction_policy.hpp"
#include "dataplane/core/page_table.hpp"
#include "dataplane/core/session_record.hpp"

namespace penstock {

// What a page counts as. One bit each: a page may count as several.
enum class PageClass : std::uint16_t {
  used = 1 << 0,
  resident = 1 << 1,
  private_frame = 1 << 2,
  loose_load = 1 << 3,    // On its way in and held by nobody: evictable soon.
  leaving = 1 << 4,       // Evicting; every answer that it waits for is due within the revoke deadline.
  leaving_slow = 1 << 5,  // Evicting; a session answered `later`.
  stuck = 1 << 6,         // Mapped by a session that is stuck, or overdue.
  evictable = 1 << 7,
  requested = 1 << 8,  // Leaving, because of an EvictRequest.
  arriving = 1 << 9,   // Being created, loading, or copied into.
};
inline constexpr std::size_t page_classes = 10;

class PageTables {
 public:
  explicit PageTables(std::unique_ptr<EvictionPolicy> policy) : policy_(std::move(policy)) {}

  PagedTable& open(const TableOpened& opened, PagingSession* owner);
  // Null when there is none.
  PagedTable* find(TableId table) const {
    const auto found = tables_.find(table);
    return found == tables_.end() ? nullptr : found->second.get();
  }
  // From now on no page of it is evictable. REQUIRES: not closing.
  void start_closing(PagedTable& table, EvictReason reason);
  // REQUIRES: closing, no page used, no ticket.
  void erase(PagedTable& table);

  void attach(TableMapping& mapping);
  void detach(TableMapping& mapping);

  template <class Change>
  void change(PagedTable& table, std::uint32_t index, Change&& change_page) {
    PageEntry& page = table.pages[index];
    const std::uint16_t before = classify(table, page);
    change_page(page);
    apply(table, index, before, classify(table, page));
  }
  void set_mapping(TableMapping& mapping, std::uint32_t index, MappingState to);
  // The session has become stuck, or has spoken.
  void set_stuck(PagingSession& session, bool stuck);

  std::uint32_t total(PageClass page_class) const;
  EvictionPolicy& policy() { return *policy_; }
  const EvictionPolicy& policy() const { return *policy_; }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, table] : tables_) visit(*table);
  }

  static std::uint16_t classify(const PagedTable& table, const PageEntry& page);

 private:
  void apply(PagedTable& table, std::uint32_t index, std::uint16_t before, std::uint16_t after);

  std::map<TableId, std::unique_ptr<PagedTable>> tables_;
  std::unique_ptr<EvictionPolicy> policy_;
  std::array<std::uint32_t, page_classes> totals_{};
};

constexpr bool is(std::uint16_t classes, PageClass page_class) {
  return (classes & static_cast<std::uint16_t>(page_class)) != 0;
}

}  // namespace penstock
