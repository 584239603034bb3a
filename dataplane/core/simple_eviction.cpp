// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/simple_eviction.hpp"

#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {

SimpleEviction::Table& SimpleEviction::at(TableId table) {
  const auto found = tables_.find(table);
  CHECK(found != tables_.end());
  return found->second;
}

const SimpleEviction::Table& SimpleEviction::at(TableId table) const {
  const auto found = tables_.find(table);
  CHECK(found != tables_.end());
  return found->second;
}

void SimpleEviction::table_opened(TableId table, TableKind) {
  Table opened;
  opened.rank.opened = ++opened_;
  opened.rank.table = table;
  // A node to keep, made once.
  std::set<Rank> maker{opened.rank};
  opened.spare = maker.extract(maker.begin());
  const bool added = tables_.emplace(table, std::move(opened)).second;
  CHECK(added);
}

void SimpleEviction::table_closed(TableId table) {
  ranks_.erase(at(table).rank);
  tables_.erase(table);
}

void SimpleEviction::table_used_by(TableId table, std::uint32_t sessions) {
  Table& changed = at(table);
  Rank rank = changed.rank;
  rank.used = sessions > 0;
  rank.priority = rank.used ? changed.priority : 0;
  change_rank(changed, rank);
}

void SimpleEviction::prioritized(TableId table) {
  Table& changed = at(table);
  changed.priority = ++prioritized_;
  Rank rank = changed.rank;
  rank.priority = rank.used ? changed.priority : 0;
  change_rank(changed, rank);
}

void SimpleEviction::source_moved(TableId table, SourcePlace place) {
  Table& changed = at(table);
  Rank rank = changed.rank;
  rank.source = place;
  change_rank(changed, rank);
}

void SimpleEviction::change_rank(Table& table, const Rank& rank) {
  const bool listed = !table.evictable.empty();
  if (listed) table.spare = ranks_.extract(table.rank);
  table.rank = rank;
  table.spare.value() = rank;
  if (listed) ranks_.insert(std::move(table.spare));
}

void SimpleEviction::became_evictable(PageKey page) {
  Table& table = at(page.table);
  if (table.evictable.empty()) ranks_.insert(std::move(table.spare));
  table.evictable.insert(page.index);
}

void SimpleEviction::no_longer_evictable(PageKey page) {
  Table& table = at(page.table);
  table.evictable.erase(page.index);
  if (table.evictable.empty()) table.spare = ranks_.extract(table.rank);
}

std::optional<PageKey> SimpleEviction::victim(std::optional<TableId> only) const {
  if (only) {
    const auto found = tables_.find(*only);
    if (found == tables_.end() || found->second.evictable.empty()) return std::nullopt;
    return PageKey{.table = *only, .index = found->second.evictable.last()};
  }
  if (ranks_.empty()) return std::nullopt;
  const TableId table = ranks_.begin()->table;
  return PageKey{.table = table, .index = at(table).evictable.last()};
}

bool SimpleEviction::worth_evicting(PageKey page, PageKey candidate) const {
  return candidate.table != page.table && at(candidate.table).rank < at(page.table).rank;
}

}  // namespace penstock
