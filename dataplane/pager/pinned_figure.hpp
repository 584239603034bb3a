// SPDX-License-Identifier: Apache-2.0
// PinnedFigure: how many pages are pinned, counted some at a time.
//
// A page counts once, and only if the service's own record grants it to a session that shows a pin count for it: a
// client that lies overstates at most what was granted to it (D3).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dataplane/base/ids.hpp"
#include "dataplane/pager/peer_session.hpp"

namespace penstock {

class PinnedFigure {
 public:
  using Sessions = std::unordered_map<SessionId, std::unique_ptr<PeerSession>>;

  // Looks at up to `pages_max` more pages. Returns the newest complete count.
  std::uint64_t advance(const Sessions& sessions, std::uint32_t pages_max);
  // A session has gone: what was counted so far is of no use.
  void restart() { at_ = tables_.end(); }

 private:
  void begin_round(const Sessions& sessions);
  void find_holders(const Sessions& sessions, TableId table);
  bool pinned(std::uint32_t page) const;

  std::map<TableId, std::uint32_t> tables_;  // Of this round: pages.
  std::map<TableId, std::uint32_t>::const_iterator at_ = tables_.end();
  std::uint32_t next_page_ = 0;
  std::uint64_t counting_ = 0;
  std::uint64_t complete_ = 0;
  std::vector<const Attachment*> holders_;  // Valid within one advance().
};

}  // namespace penstock
