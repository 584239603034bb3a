// SPDX-License-Identifier: Apache-2.0
// Checksums of resident pages: in the background, and when the service asks.
#include <algorithm>

#include <fmt/format.h>

#include "dataplane/pager/pager.hpp"

namespace penstock {

// A page whose bytes are not those that were loaded: somebody's stray write, or the memory itself. It is taken from its
// users as soon as they let go, and read again.
void Pager::scrub() {
  const std::optional<ScrubFinding> found =
      scrubber_.advance(now_, copy_fences_.empty() && waiting_copies_.empty());
  stats_.scrubbed_pages.store(scrubber_.stats().summed_total, std::memory_order_relaxed);
  if (found) {
    stats_.corrupt_pages.fetch_add(1, std::memory_order_relaxed);
    PagerDecision corrupt = decision(PagerDecision::Kind::corrupt, found->page);
    corrupt.reason = FailureKind::internal;
    corrupt.detail = fmt::format("its checksum is {:016x} instead of {:016x}", found->found, found->expected);
    news_.log(std::move(corrupt));
    to_reload_.insert(found->page);
    loads_->distrust(found->page);
    later(EvictPage{.page = found->page, .generation = found->generation});
  }
  if (const std::optional<SumsOff> off = scrubber_.take_notice(); off && options_.on_sums_off)
    options_.on_sums_off(*off);
  answer_scrubs();
}

// Pages that were filled and have their first sum.
void Pager::take_filled() {
  scrubber_.take_filled(now_, filled_);
  for (const Loaded& loaded : filled_) later(loaded);
  filled_.clear();
}

void Pager::release_filled(std::optional<PageKey> page) {
  scrubber_.release(page, filled_);
  for (const Loaded& loaded : filled_) later(loaded);
  filled_.clear();
}

void Pager::take(const mail::ScrubTable& message) {
  const auto table = tables_.find(message.table);
  if (!message.any_table && (table == tables_.end() || table->second.closing)) {
    return refuse(message.request, FailureKind::not_found);
  }
  if (stopping()) return refuse(message.request, FailureKind::closing);
  if (scrubber_.is_off(now_)) return refuse(message.request, FailureKind::device_unhealthy);
  const ScrubStats now = scrubber_.stats();
  const std::uint64_t pages =
      scrubber_.request(message.any_table ? std::nullopt : std::optional(message.table));
  scrubs_.push_back({.request = message.request,
                     .pages = pages,
                     .summed_before = now.summed_total,
                     .corrupt_before = now.corrupt_total});
}

// All at once: what was asked for goes first, whoever asked.
void Pager::answer_scrubs() {
  if (scrubs_.empty() || !scrubber_.has_answered()) return;
  const ScrubStats now = scrubber_.stats();
  const bool off = scrubber_.is_off(now_);
  for (const OpenScrub& scrub : scrubs_) {
    news_.answer(RequestDone{
        .request = scrub.request,
        .result = off ? TicketResult::failed : TicketResult::done,
        .reason = off ? FailureKind::device_unhealthy : FailureKind::internal,
        .bytes = std::min(scrub.pages, now.summed_total - scrub.summed_before) * device_.frame_bytes,
        .corrupt_pages = now.corrupt_total - scrub.corrupt_before});
  }
  scrubs_.clear();
}

// For nobody: whoever wants it sooner faults.
void Pager::reload(PageKey page) {
  const auto table = tables_.find(page.table);
  if (stopping() || table == tables_.end() || table->second.closing || !table->second.has_source) return;
  const Ticket ticket = requests_.open({.kind = OpenRequest::Kind::load_table,
                                        .table = page.table,
                                        .first = page.index,
                                        .received = now_,
                                        .reads_before = loads_->reads_of(page.table)});
  later(Prefetch{.ticket = ticket, .table = page.table, .first = page.index, .count = 1});
}

}  // namespace penstock
