// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/page_scrub.hpp"

#include <algorithm>

#include "dataplane/base/check.hpp"

namespace penstock {

PageScrub::PageScrub(std::uint64_t page_bytes, const ScrubRates& rates)
    : page_bytes_(page_bytes), rates_(rates) {
  CHECK(page_bytes > 0);
}

void PageScrub::resident(PageKey page, Generation generation, std::optional<std::uint64_t> sum) {
  pages_.insert_or_assign(page, Watched{.generation = generation, .sum = sum});
  requested_.erase(page);
  if (sum) {
    unsummed_.erase(page);
  } else {
    unsummed_.insert(page);
  }
}

void PageScrub::gone(PageKey page) {
  pages_.erase(page);
  unsummed_.erase(page);
  requested_.erase(page);
}

std::uint64_t PageScrub::request(std::optional<TableId> table) {
  std::uint64_t count = 0;
  auto at = table ? pages_.lower_bound(PageKey{.table = *table, .index = 0}) : pages_.begin();
  for (; at != pages_.end() && (!table || at->first.table == *table); ++at, ++count)
    requested_.insert(at->first);
  return count;
}

PageScrub::Nanoseconds PageScrub::interval() const {
  const std::uint64_t rate = is_urgent() && rates_.soon > 0 ? rates_.soon : rates_.rolling;
  if (rate == 0) return never;
  return std::chrono::duration_cast<Nanoseconds>(
      std::chrono::duration<double>(static_cast<double>(page_bytes_) / static_cast<double>(rate)));
}

PageScrub::Nanoseconds PageScrub::due(Nanoseconds now) const {
  if (under_way_ || pages_.empty()) return never;
  const Nanoseconds wait = interval();
  if (wait == never) return never;
  return started_ ? std::max(now, *started_ + wait) : now;
}

// Behind the last one and round again, so that a page which fails each time keeps nobody from its turn.
PageKey PageScrub::choose_from(const std::set<PageKey>& pages) {
  auto at = soon_ ? pages.upper_bound(*soon_) : pages.begin();
  if (at == pages.end()) at = pages.begin();
  soon_ = *at;
  return *at;
}

PageKey PageScrub::choose() {
  if (!requested_.empty()) return choose_from(requested_);
  if (!unsummed_.empty()) return choose_from(unsummed_);
  auto at = rolled_ ? pages_.upper_bound(*rolled_) : pages_.begin();
  if (at == pages_.end()) {
    ++totals_.rounds_total;
    at = pages_.begin();
  }
  rolled_ = at->first;
  return at->first;
}

std::optional<ScrubOrder> PageScrub::next(Nanoseconds now) {
  if (due(now) > now) return std::nullopt;
  const PageKey page = choose();
  started_ = now;
  under_way_ = ScrubOrder{.page = page, .generation = pages_.at(page).generation};
  answers_request_ = requested_.erase(page) > 0;
  return under_way_;
}

void PageScrub::end(const ScrubOrder& order) {
  CHECK(under_way_ && under_way_->page == order.page && under_way_->generation == order.generation);
  under_way_.reset();
  answers_request_ = false;
}

ScrubVerdict PageScrub::summed(const ScrubOrder& order, std::uint64_t sum) {
  end(order);
  ++totals_.summed_total;
  const auto at = pages_.find(order.page);
  if (at == pages_.end() || at->second.generation != order.generation) return ScrubVerdict::stale;
  if (!at->second.sum) {
    at->second.sum = sum;
    unsummed_.erase(order.page);
    return ScrubVerdict::recorded;
  }
  if (*at->second.sum == sum) return ScrubVerdict::intact;
  finding_ = ScrubFinding{
      .page = order.page, .generation = order.generation, .expected = *at->second.sum, .found = sum};
  ++totals_.corrupt_total;
  gone(order.page);
  return ScrubVerdict::corrupt;
}

void PageScrub::failed(const ScrubOrder& order) {
  // A page that was asked for is not chosen again for that: it would keep the others from their turn.
  end(order);
}

std::optional<std::uint64_t> PageScrub::sum_of(PageKey page, Generation generation) const {
  const auto at = pages_.find(page);
  if (at == pages_.end() || at->second.generation != generation) return std::nullopt;
  return at->second.sum;
}

ScrubStats PageScrub::stats() const {
  ScrubStats stats = totals_;
  stats.pages = pages_.size();
  stats.unsummed = unsummed_.size();
  stats.requested = requested_.size() + (answers_request_ ? 1 : 0);
  return stats;
}

}  // namespace penstock
