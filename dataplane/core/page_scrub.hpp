// SPDX-License-Identifier: Apache-2.0
// PageScrub: which resident page to sum up next, so that a stray write into a clean page is found.
//
// The first sum of a page is taken as what it ought to be, unless the caller knows that already; later ones are compared
// with it, page after page, slowly and for ever. A page that differs is reported once and forgotten: the caller evicts
// it, so that its next fault reads it again, and no new client gets it until then.
//
// 1. At most one page is being summed up. An answer about another generation than the present one changes nothing.
// 2. Orders start at most as often as the rates say; time that passed unused is not made up for.
// 3. A request is answered by sums that were begun after it: what was wrong before it is found by it.
// 4. Pages asked for go first, then pages that have no sum, then the others in the order of their keys, round and round.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "dataplane/base/ids.hpp"

namespace penstock {

// Bytes a second; 0 = never.
struct ScrubRates {
  std::uint64_t soon = 4ull << 30;      // Pages asked for, and first sums; with 0 these roll too.
  std::uint64_t rolling = 64ull << 20;  // 24 GiB in six minutes.
};

struct ScrubOrder {
  PageKey page{};
  Generation generation{};
};

enum class ScrubVerdict : std::uint8_t {
  recorded,  // The first sum.
  intact,
  corrupt,  // See ScrubFinding.
  stale,    // The page has gone meanwhile.
};

// REQUIRES of who gets it: report table, page and both sums; evict the page, or destroy it when it is next unpinned.
struct ScrubFinding {
  PageKey page{};
  Generation generation{};
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

struct ScrubStats {
  std::uint64_t pages = 0;      // Under watch,
  std::uint64_t unsummed = 0;   // of which these have no sum yet,
  std::uint64_t requested = 0;  // and these were asked for.
  std::uint64_t summed_total = 0;
  std::uint64_t corrupt_total = 0;
  std::uint64_t rounds_total = 0;  // Rolling rounds completed.
};

class PageScrub {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  static constexpr Nanoseconds never = Nanoseconds::max();

  // REQUIRES: page_bytes > 0.
  explicit PageScrub(std::uint64_t page_bytes, const ScrubRates& rates = {});

  void set_rates(const ScrubRates& rates) { rates_ = rates; }

  // The page's content is final. `sum`: where it is known, from a manifest or from loading.
  // REQUIRES: nobody may write to the page; so never a private one.
  void resident(PageKey page, Generation generation, std::optional<std::uint64_t> sum = std::nullopt);
  // Before the page's frame is destroyed or handed out writable. Unknown pages are fine.
  void gone(PageKey page);
  // Pages of the table are summed up soon; of all tables without one. Returns how many.
  std::uint64_t request(std::optional<TableId> table);
  // No sums can be taken now.
  void withdraw_requests() { requested_.clear(); }

  // When next() will give an order; `never` while one is being carried out or there is nothing to do.
  Nanoseconds due(Nanoseconds now) const;
  std::optional<ScrubOrder> next(Nanoseconds now);
  // The answer to an order. On corrupt the finding stands in finding(), until the next answer.
  ScrubVerdict summed(const ScrubOrder& order, std::uint64_t sum);
  // Instead of summed: the device could not. The page will be tried again in its turn.
  void failed(const ScrubOrder& order);

  const ScrubFinding& finding() const { return finding_; }
  std::optional<std::uint64_t> sum_of(PageKey page, Generation generation) const;
  ScrubStats stats() const;

 private:
  struct Watched {
    Generation generation{};
    std::optional<std::uint64_t> sum;
  };

  bool is_urgent() const { return !requested_.empty() || !unsummed_.empty(); }
  Nanoseconds interval() const;
  PageKey choose();
  PageKey choose_from(const std::set<PageKey>& pages);
  void end(const ScrubOrder& order);

  const std::uint64_t page_bytes_;
  ScrubRates rates_;
  std::map<PageKey, Watched> pages_;
  std::set<PageKey> unsummed_, requested_;  // Subsets of pages_.
  std::optional<PageKey> soon_, rolled_;    // The last one chosen: of the two sets, and by rolling.
  std::optional<ScrubOrder> under_way_;
  bool answers_request_ = false;        // The one under way.
  std::optional<Nanoseconds> started_;  // The last order.
  ScrubFinding finding_;
  ScrubStats totals_;
};

}  // namespace penstock
