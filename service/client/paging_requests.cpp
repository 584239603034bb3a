// SPDX-License-Identifier: Apache-2.0
// Paging: what this process asks for.
#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "service/client/paging.hpp"

namespace penstock {
namespace {

// A completed fault whose pages this process gave away meanwhile is repeated this often.
constexpr int fault_attempts = 64;

Failure too_late(const char* what) {
  return {FailureKind::deadline, fmt::format("{} did not come within the time given", what), ""};
}

Failure lost() { return {FailureKind::disconnected, "the connection to the service is lost", ""}; }

}  // namespace

std::optional<Paging::Answer> Paging::refuse(const Table& table) const {
  if (!socket_.is_open() || !table.attached(epoch_)) return Answer{tl::unexpected(lost()), false};
  if (table.gone) {
    return Answer{fail(*table.gone,
                       fmt::format("the service closed the table: {}", failure_kind_name(*table.gone)),
                       "what is mapped stays readable; open the checkpoint again for the rest")};
  }
  if (closing_) return Answer{fail(FailureKind::closing, "the service stops")};
  return std::nullopt;
}

Outcome<void> Paging::end_of(const Request& request) const {
  if (request.failure) return tl::unexpected(*request.failure);
  switch (request.result) {
    case TicketResult::done: return {};
    case TicketResult::offloaded:
      if (request.reason == FailureKind::fd_limit)
        return fail(FailureKind::offloaded,
                    "there is no room for the pages now: the service is out of descriptors",
                    "raise RLIMIT_NOFILE of penstockd");
      if (request.reason == FailureKind::device_unhealthy)
        return fail(FailureKind::device_unhealthy, "the device can't be used now",
                    "penstock status says why, and when it is ready again; stream the bytes meanwhile");
      return fail(FailureKind::offloaded, "there is no room for the pages now",
                  "stream the bytes, or free some memory");
    case TicketResult::cancelled: return fail(FailureKind::cancelled, "the request was cancelled");
    case TicketResult::failed: break;
  }
  return fail(request.reason,
              fmt::format("the pages can't be brought in: {}", failure_kind_name(request.reason)));
}

Paging::Answer Paging::fault(Table& table, PageSpan span, Nanoseconds deadline) {
  Hold lock(*this);
  idle_ = false;
  run_listed(true);
  for (int attempt = 0; attempt < fault_attempts; ++attempt) {
    const PinOutcome pinned = pin_locked(table, span);
    if (pinned == PinOutcome::done) return {};
    if (pinned == PinOutcome::full)
      return {fail(FailureKind::exhausted, "a page has as many pins as can be counted")};
    if (auto refused = refuse(table)) return std::move(*refused);
    if (monotonic_now() >= deadline) return {tl::unexpected(too_late("the pages"))};
    Request request;
    request.table = &table;
    request.span = span;
    request.pins = true;
    if (!send_faults(table, request)) {
      receive();
      std::erase_if(requests_, [&](const auto& entry) { return entry.second == &request; });
      return {tl::unexpected(lost()), false};
    }
    if (!wait(lock.held, request, deadline, true)) return {tl::unexpected(too_late("the pages"))};
    if (auto end = end_of(request); !end) return {std::move(end)};
    if (request.pinned) return {};
  }
  return {fail(FailureKind::offloaded,
               "the pages were given back again and again before they could be pinned",
               "another thread of this process frees them")};
}

// All of the range, not only what is missing: the service then keeps the rest of it from being evicted for this. But where
// private pages are mapped: the shared ones would come in beside them.
bool Paging::send_faults(Table& table, Request& request) {
  const auto asked_for = [&](std::uint32_t page) {
    const auto mapped = table.mapped(page);
    return !mapped || !mapped->overlay ||
           pstw_pin_state(table.word(page).load(std::memory_order_relaxed)) != PSTW_PIN_MAPPED;
  };
  for (std::uint32_t page = request.span.first; page != request.span.end();) {
    if (!asked_for(page)) {
      ++page;
      continue;
    }
    const std::uint32_t first = page;
    while (page != request.span.end() && asked_for(page)) ++page;
    if (!send(PeerFault{enlist(request), table.attachment().number, first, page - first})) return false;
  }
  return true;
}

Paging::Answer Paging::prefetch(Table& table, PageSpan span, bool wait_for_it, Nanoseconds deadline) {
  Hold lock(*this);
  if (auto refused = refuse(table)) return std::move(*refused);
  if (!wait_for_it) {
    if (send(PeerPrefetch{++last_request_, table.attachment().number, span.first, span.count})) return {};
    return {tl::unexpected(lost()), false};
  }
  Request request;
  request.table = &table;
  if (!send(PeerPrefetch{enlist(request), table.attachment().number, span.first, span.count})) receive();
  if (!request.done && !wait(lock.held, request, deadline, false))
    return {tl::unexpected(too_late("the pages"))};
  return {end_of(request)};
}

Paging::Answer Paging::make_private(Table& table, PageSpan span, Nanoseconds deadline) {
  if (const auto settled = table.mapper().settle_thread(); !settled) {
    return {fail(settled.error().code == Errc::busy ? FailureKind::busy : FailureKind::device_unhealthy,
                 fmt::format("device work can't be waited for: {} ({})", settled.error().operation,
                             settled.error().native))};
  }
  Hold lock(*this);
  idle_ = false;
  run_listed(true);
  if (auto refused = refuse(table)) return std::move(*refused);
  if (table.attachment().overlay_number == 0) {
    return {fail(FailureKind::unsupported, "the service gave the table no private pages")};
  }
  if (!table.quiet(span)) {
    return {fail(FailureKind::busy, "device work that was told of at an unpin still uses the pages",
                 "synchronise, or try again once it has ended")};
  }
  Request request;
  request.table = &table;
  request.span = span;
  request.replaces = true;
  for (std::uint32_t page = span.first; page != span.end();) {
    if (table.is_private(page)) {
      ++page;
      continue;
    }
    const std::uint32_t first = page;
    while (page != span.end() && !table.is_private(page)) ++page;
    if (!send(PeerMakePrivate{enlist(request), table.attachment().number, first, page - first})) receive();
  }
  if (request.open == 0 && !request.done) return {};
  if (!request.done && !wait(lock.held, request, deadline, true))
    return {tl::unexpected(too_late("the private pages"))};
  if (auto end = end_of(request); !end) return {std::move(end)};
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    if (table.is_private(page) || table.mapper().replaces_at_once()) continue;
    return {
        fail(FailureKind::busy, "a page of a service that is gone is pinned", "unpin it, and pin it again")};
  }
  return {};
}

void Paging::prioritize(Table& table) {
  const Hold lock(*this);
  for (const auto& [number, other] : tables_) other->prioritized = other == &table;
  table.prioritized = true;
  if (table.attached(epoch_)) send(PeerPrioritize{table.attachment().number});
}

void Paging::set_cutoff(Table& table, std::uint32_t pages) {
  const Hold lock(*this);
  table.cutoff = pages;
  if (table.attached(epoch_)) send(PeerCutoff{table.attachment().number, pages});
}

std::vector<Paging::Idle> Paging::idle_pages(const Table* only) {
  std::vector<Idle> found;
  for (const auto& [number, table] : tables_) {
    if (number != table->attachment().number) continue;  // The overlay's pages come with the table's.
    if (only != nullptr && table != only) continue;
    for (std::uint32_t page = 0; page < table->shape().pages; ++page) {
      const std::uint64_t word = table->word(page).load(std::memory_order_relaxed);
      if (!table->mapped(page) || pstw_pin_state(word) != PSTW_PIN_MAPPED || pstw_pin_count(word) != 0)
        continue;
      found.push_back({table, page, (word & PSTW_PIN_TOUCH_MASK) >> PSTW_PIN_TOUCH_SHIFT});
    }
  }
  if (only != nullptr) {
    std::reverse(found.begin(), found.end());
    return found;
  }
  // A private page is free for certain; of the others, those of least use go first, and the end of a table before its start.
  std::sort(found.begin(), found.end(), [](const Idle& a, const Idle& b) {
    const auto key = [](const Idle& one) {
      return std::tuple(!one.table->is_private(one.page), one.table->prioritized, one.touches, ~one.page);
    };
    return key(a) < key(b);
  });
  return found;
}

std::uint64_t Paging::give_back(std::uint64_t bytes, Nanoseconds deadline, const Table* only) {
  constexpr std::uint32_t at_once = 256;
  Hold lock(*this);
  const std::vector<Idle> idle = idle_pages(only);
  std::uint64_t freed = 0;
  auto next = idle.begin();
  while (freed < bytes && next != idle.end() && socket_.is_open()) {
    Request request;
    for (std::uint64_t hoped = freed; next != idle.end() && hoped < bytes && request.open < at_once; ++next) {
      // The lock was given up while we waited: the table may be closed.
      const auto open =
          std::any_of(tables_.begin(), tables_.end(), [&](const auto& e) { return e.second == next->table; });
      if (!open || next->page >= next->table->shape().pages || !next->table->mapped(next->page)) continue;
      const PageName name = next->table->name_of(next->page);
      if (!next->table->give_up(next->page)) continue;
      send(PeerRelease{enlist(request), name.table, name.page, name.generation, true});
      hoped += next->table->shape().page_bytes;
    }
    if (request.open == 0 || request.done) continue;
    const bool in_time = wait(lock.held, request, deadline, false);
    freed += request.released_bytes;
    if (!in_time || request.failure) break;
  }
  return freed;
}

}  // namespace penstock
