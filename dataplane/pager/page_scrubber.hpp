// SPDX-License-Identifier: Apache-2.0
// PageScrubber: sums up resident pages by the order of PageScrub, and says which of them are not what they were.
//
//  1. Watched are pages that the service fills and nobody may write to: those of file and assembled tables.
//  2. Sums are taken by the FrameSummer's own thread, or by the device's writer. Here it costs a descriptor's copy or a
//     message each, and nothing on the way of a fault.
//  3. Where the summer can, a page is summed up when it has been filled, before anybody hears that it is there: what is
//     wrong later is found. Else its first sum is taken in its turn, and what was wrong before that is not.
//  4. A sum that fails, and the loss of a writer under one, cost nothing but that sum: see sum_rest.hpp. While sums are off
//     nothing is held back, and requests are answered with what was summed up.
//  5. A page that was found corrupt is named by corrupt() until it is gone: a page in use can't be taken at once.
//
// Dataplane thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/core/page_scrub.hpp"
#include "dataplane/core/pager_events.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/frame_summer.hpp"
#include "dataplane/pager/sum_rest.hpp"

namespace penstock {

class PageScrubber {
 public:
  // Without a summer it does nothing.
  PageScrubber(FrameOwner& owner, std::unique_ptr<FrameSummer> summer, const ScrubRates& rates);

  // What the core says, in its order. A page's frame is known from its load, and its end by the frame's.
  void loading(PageKey page, Generation generation, FrameId frame);
  void resident(PageKey page, Generation generation);
  void destroyed(FrameId frame);

  // A load has ended. True: its answer is held until the page has been summed up, then take_filled() appends it.
  bool holds_back(Nanoseconds now, const Loaded& loaded);
  void take_filled(Nanoseconds now, std::vector<Loaded>& ended);
  bool holds(PageKey page) const { return find_held(page) != held_.end(); }
  // The answer of a page, or of all of them, is wanted without a sum.
  void release(std::optional<PageKey> page, std::vector<Loaded>& ended);

  // Takes the sum that is there, and asks for the next. `may_share`: no copy of a page is under way, whose frame could not
  // be published. Returns what has just been found corrupt.
  std::optional<ScrubFinding> advance(Nanoseconds now, bool may_share);
  // When advance has something to do; `never` if not.
  Nanoseconds due(Nanoseconds now) const;
  // Pages of the table, or all of them, are summed up soon: how many.
  std::uint64_t request(std::optional<TableId> table) { return scrub_.request(table); }
  // Nothing is summed up now.
  bool is_off(Nanoseconds now) const { return rest_.is_off(now); }
  // What is to be logged, once each.
  std::optional<SumsOff> take_notice() { return std::exchange(notice_, std::nullopt); }
  // Nothing that was asked for is waiting or under way.
  bool has_answered() const { return scrub_.stats().requested == 0; }
  // To be evicted: pages and the generation that is corrupt.
  const std::map<PageKey, Generation>& corrupt() const { return corrupt_; }
  ScrubStats stats() const { return scrub_.stats(); }

 private:
  struct Filled {
    Generation generation{};
    FrameId frame{};
    bool resident = false;
    std::optional<std::uint64_t> sum{};  // As it was when it had been filled.
  };
  struct Held {
    Loaded loaded;
    FrameId frame{};
    std::optional<FenceId> fence{};  // None: the summer was busy.
    bool released = false;           // Its answer has gone; the sum is still to be taken off the summer.
  };

  void take_sum(Nanoseconds now, std::optional<ScrubFinding>& found);
  void failed(Nanoseconds now, const Error& error);
  void start(Nanoseconds now);
  Result<> start_summing(FrameId frame);
  std::vector<Held>::const_iterator find_held(PageKey page) const;
  bool end(Nanoseconds now, Held& held, std::vector<Loaded>& ended);

  FrameOwner& owner_;
  const std::unique_ptr<FrameSummer> summer_;
  const std::uint64_t frame_bytes_;
  PageScrub scrub_;
  std::map<PageKey, Filled> pages_;
  std::unordered_map<FrameId, PageKey> frames_;  // Of pages_.
  std::map<PageKey, Generation> corrupt_;
  std::optional<ScrubOrder> under_way_;
  SumRest rest_;
  std::optional<SumsOff> notice_;
  std::vector<Held> held_;  // In the order of their loads' ends.
};

}  // namespace penstock
