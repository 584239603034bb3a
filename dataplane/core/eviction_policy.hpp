// SPDX-License-Identifier: Apache-2.0
// Which page goes first. The core tells the policy what becomes evictable and what is used; it asks for victims.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/core/pager_events.hpp"

namespace penstock {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  virtual void table_opened(TableId table, TableKind kind) = 0;
  virtual void table_closed(TableId table) = 0;
  // Sessions attached to the table; 0 makes its pages cheap.
  virtual void table_used_by(TableId table, std::uint32_t sessions) = 0;
  virtual void prioritized(TableId table) = 0;
  virtual void source_moved(TableId table, SourcePlace place) = 0;
  // The page may be chosen from now on / not any more (pinned, busy, held by a ticket, gone).
  virtual void became_evictable(PageKey page) = 0;
  virtual void no_longer_evictable(PageKey page) = 0;
  virtual void faulted(PageKey page) = 0;
  // The least valuable evictable page; nullopt when there is none. `only` restricts it to one table.
  virtual std::optional<PageKey> victim(std::optional<TableId> only) const = 0;
  // Would bringing in `page` by prefetch be worth evicting `candidate`?
  virtual bool worth_evicting(PageKey page, PageKey candidate) const = 0;

 protected:
  EvictionPolicy() = default;
};

}  // namespace penstock
