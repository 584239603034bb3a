// SPDX-License-Identifier: Apache-2.0
// OldestPolicy: gives up the page whose last fault is longest ago. Enough for tests of the shell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "dataplane/core/eviction_policy.hpp"

namespace penstock::test {

class OldestPolicy final : public EvictionPolicy {
 public:
  void table_opened(TableId, TableKind) override {}
  void table_closed(TableId) override {}
  void table_used_by(TableId, std::uint32_t) override {}
  void prioritized(TableId) override {}
  void became_evictable(PageKey page) override { evictable_.insert(page); }
  void no_longer_evictable(PageKey page) override { evictable_.erase(page); }
  void faulted(PageKey page) override { last_fault_[page] = ++clock_; }
  std::optional<PageKey> victim(std::optional<TableId> only) const override {
    std::optional<PageKey> oldest;
    for (const PageKey& page : evictable_) {
      if (only && page.table != *only) continue;
      if (!oldest || age_of(page) < age_of(*oldest)) oldest = page;
    }
    return oldest;
  }
  bool worth_evicting(PageKey, PageKey) const override { return false; }

 private:
  std::uint64_t age_of(PageKey page) const {
    const auto found = last_fault_.find(page);
    return found == last_fault_.end() ? 0 : found->second;
  }
  std::set<PageKey> evictable_;
  std::map<PageKey, std::uint64_t> last_fault_;
  std::uint64_t clock_ = 0;
};

}  // namespace penstock::test
