// SPDX-License-Identifier: Apache-2.0
// SparePageCache: has the kernel drop the page cache of what devices hold, so that others need not reclaim it. Clients
// that map a file keep their pages: the kernel drops none that is mapped. Service thread; the calls are the opener's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/core/extent.hpp"
#include "dataplane/pager/mail.hpp"
#include "service/control/opener.hpp"
#include "service/control/table_registry.hpp"

namespace penstock {

// Of one file, the extents whose pages are resident, sorted, neighbours joined. Any thread.
std::vector<Extent> resident_extents(const TableSource& source, const PageWords& words, std::uint32_t file);

class SparePageCache {
 public:
  static constexpr Nanoseconds period = std::chrono::seconds(2);
  using Told = std::function<void(const Checkpoint&, std::uint64_t advised_bytes)>;

  SparePageCache(Opener& opener, Told told)
      : opener_(opener), told_(std::make_shared<Told>(std::move(told))) {}

  // Starts one job for each checkpoint that `has_cache`, unless the last ones are not done or began a moment ago.
  void drop(Nanoseconds now, const TableRegistry& tables,
            const std::function<bool(const Checkpoint&)>& has_cache);

 private:
  void drop(const std::shared_ptr<SharedTable>& table, std::uint32_t file,
            const std::shared_ptr<Checkpoint>& checkpoint);

  Opener& opener_;
  std::shared_ptr<Told> told_;
  std::shared_ptr<int> under_way_ = std::make_shared<int>(0);
  Nanoseconds next_{};
};

}  // namespace penstock
