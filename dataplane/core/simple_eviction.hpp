// SPDX-License-Identifier: Apache-2.0
// SimpleEviction: tables that nobody uses go first, then the least important ones; among equals what costs least to bring
// back: from locked host memory, from the page cache, from a disk, by work of a client; then the oldest. Within a table the last page goes
// first: a sweep that comes round again finds its beginning, where the least recently used page would be the next one
// wanted.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

#include "dataplane/core/eviction_policy.hpp"
#include "dataplane/core/eviction_set.hpp"

namespace penstock {

class SimpleEviction final : public EvictionPolicy {
 public:
  void table_opened(TableId table, TableKind kind) override;
  void table_closed(TableId table) override;
  void table_used_by(TableId table, std::uint32_t sessions) override;
  void prioritized(TableId table) override;
  void source_moved(TableId table, SourcePlace place) override;
  void became_evictable(PageKey page) override;
  void no_longer_evictable(PageKey page) override;
  void faulted(PageKey) override {}
  std::optional<PageKey> victim(std::optional<TableId> only) const override;
  bool worth_evicting(PageKey page, PageKey candidate) const override;

 private:
  // Lower goes first.
  struct Rank {
    bool used = false;
    std::uint64_t priority = 0;  // 0, or which call of prioritized() was the last for it. Counts while used.
    SourcePlace source = SourcePlace::disk;
    std::uint64_t opened = 0;
    TableId table{};
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  struct Table {
    Rank rank;
    std::uint64_t priority = 0;
    EvictionSet evictable;
    // The node of `ranks_` while it isn't there, so that moving allocates nothing.
    std::set<Rank>::node_type spare;
  };

  Table& at(TableId table);
  const Table& at(TableId table) const;
  void change_rank(Table& table, const Rank& rank);

  std::map<TableId, Table> tables_;
  std::set<Rank> ranks_;  // Of the tables that have evictable pages.
  std::uint64_t opened_ = 0;
  std::uint64_t prioritized_ = 0;
};

}  // namespace penstock
