// SPDX-License-Identifier: Apache-2.0
// A frame's way from CreateFrame to DestroyFrame. A frame serves one page in its life.
#include <algorithm>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"
#include "dataplane/core/planted.hpp"

namespace penstock {

std::uint32_t PagerCore::State::frame_limit() const {
  const std::uint32_t limit = now_ < exhausted_until_ ? std::min(budget_, exhausted_at_) : budget_;
  return PLANTED(budget_overrun) ? limit + 1 : limit;
}

bool PagerCore::State::can_create() const { return used() < frame_limit(); }

void PagerCore::State::create_frame(PagedTable& table, std::uint32_t index, bool bulk) {
  CHECK(table.pages[index].state == PageState::absent);
  tables_.change(table, index, [bulk](PageEntry& page) {
    page.state = PageState::creating;
    page.bulk = bulk;
    page.drop_unheld = false;
    page.doomed = false;
  });
  if (!bulk) {
    ++counts_.major_faults;
    if (table.pages[index].evicted_before) ++counts_.refaults;
  }
  out_.push(CreateFrame{.page = table.key(index)});
}

void PagerCore::State::on(const Created& event) {
  PagedTable* table = tables_.find(event.page.table);
  CHECK(table != nullptr && event.page.index < table->pages.size());
  PageEntry& page = table->pages[event.page.index];
  CHECK(page.state == PageState::creating);
  page.frame = event.frame;
  if (!table->closing) return fill_frame(*table, event.page.index, event.frame);
  out_.push(DestroyFrame{.frame = event.frame});
  release_source(*table, event.page.index);
  tables_.change(*table, event.page.index, [](PageEntry& entry) { entry.state = PageState::absent; });
}

void PagerCore::State::fill_frame(PagedTable& table, std::uint32_t index, FrameId frame) {
  PageEntry& page = table.pages[index];
  const PageKey key = table.key(index);
  if (!PLANTED(generation_repeated) || page.generation == 0) ++page.generation;
  const Generation generation{page.generation};
  if (table.kind == TableKind::anonymous) return page_filled(table, index);
  const bool copies = table.kind == TableKind::overlay;
  tables_.change(table, index, [copies](PageEntry& entry) {
    entry.state = copies ? PageState::copying : PageState::loading;
  });
  say_changed(table, index);
  if (copies) {
    const PagedTable* origin = tables_.find(table.origin);
    CHECK(page.holds_source && origin != nullptr && origin->pages[index].state == PageState::resident);
    out_.push(
        CopyFrame{.page = key, .generation = generation, .to = frame, .from = origin->pages[index].frame});
    return;
  }
  PageKey source = key;
  if (PLANTED(wrong_extent)) source.index = source.index == 0 ? 1 : source.index - 1;
  out_.push(Load{.page = source,
                 .generation = generation,
                 .frame = frame,
                 .urgency = page.bulk ? Urgency::bulk : Urgency::fault});
}

void PagerCore::State::on(const NotCreated& event) {
  PagedTable* table = tables_.find(event.page.table);
  CHECK(table != nullptr && event.page.index < table->pages.size());
  CHECK(table->pages[event.page.index].state == PageState::creating);
  const std::uint32_t index = event.page.index;
  tables_.change(*table, index, [](PageEntry& entry) { entry.state = PageState::absent; });
  // A device that can't fill frames would not do so in the place of an evicted page either.
  const bool unhealthy = event.reason == FailureKind::device_unhealthy;
  if (!unhealthy) {
    exhausted_at_ = used();
    exhausted_until_ = now_ + options_.revoke_deadline;
    exhausted_by_ = event.reason;
  }
  release_source(*table, index);  // Its frame may go now: the device had refused beside it.
  // As many more tries as there are pages, each in the place of an evicted one.
  for_each_waiting(*table, index, [&](TicketRecord& ticket) {
    ticket.creation_failure = event.reason;
    if (ticket.kind == TicketKind::prefetch && unhealthy) {
      finish(ticket, TicketResult::failed, event.reason);
    } else if (ticket.kind == TicketKind::prefetch) {
      ticket.cut_short = event.reason;
      ticket.end = index;
      ticket.take_next = index;
      settle(ticket);
      pass_prefetched(ticket);
    } else if (unhealthy || ++ticket.creations_failed > ticket.end - ticket.first) {
      finish(ticket, TicketResult::offloaded, event.reason);
    } else {
      start_again(ticket);
    }
  });
}

void PagerCore::State::on(const Loaded& event) {
  PagedTable* table = tables_.find(event.page.table);
  if (table == nullptr || event.page.index >= table->pages.size()) return;
  const PageEntry& page = table->pages[event.page.index];
  // A load that the writer's loss has already ended.
  if (page.state != PageState::loading || page.generation != raw(event.generation)) return;
  if (event.ok) {
    page_filled(*table, event.page.index);
  } else {
    page_not_filled(*table, event.page.index, event.reason);
  }
}

void PagerCore::State::on(const FenceReached& event) {
  PagedTable* table = tables_.find(event.page.table);
  if (table == nullptr || event.page.index >= table->pages.size()) return;
  const PageEntry& page = table->pages[event.page.index];
  if (page.state != PageState::copying || page.generation != raw(event.generation)) return;
  if (event.ok) {
    page_filled(*table, event.page.index);
  } else {
    page_not_filled(*table, event.page.index, FailureKind::device_unhealthy);
  }
}

void PagerCore::State::page_filled(PagedTable& table, std::uint32_t index) {
  release_source(table, index);
  tables_.change(table, index, [](PageEntry& entry) { entry.state = PageState::resident; });
  const PageEntry& page = table.pages[index];
  if (table.closing) {
    if (page.holds == 0) evict(table, index, table.close_reason);
    return;
  }
  say_changed(table, index);
  for_each_waiting(table, index, [this](TicketRecord& ticket) {
    if (ticket.kind == TicketKind::prefetch) {
      pass_prefetched(ticket);
    } else {
      wake(*ticket.session);
    }
  });
}

// What the loss of the writer has ended is tried once more; everything else fails who waits for it. The loss
// may be told page by page: the others that the ticket was waiting for belong to the same one.
void PagerCore::State::page_not_filled(PagedTable& table, std::uint32_t index, FailureKind reason) {
  const bool doomed = table.pages[index].doomed;
  release_source(table, index);
  destroy_frame(table, index);
  say_changed(table, index);
  for_each_waiting(table, index, [&](TicketRecord& ticket) {
    if (reason == FailureKind::device_unhealthy && (doomed || !ticket.writer_was_lost)) {
      if (!std::exchange(ticket.writer_was_lost, true)) mark_doomed(ticket);
      start_again(ticket);
    } else {
      finish(ticket, TicketResult::failed, reason);
    }
  });
}

void PagerCore::State::mark_doomed(const TicketRecord& ticket) {
  for (std::uint32_t index = ticket.done_next; index < ticket.take_next; ++index) {
    PageEntry& page = ticket.table->pages[index];
    if (page.state == PageState::loading || page.state == PageState::copying) page.doomed = true;
  }
}

void PagerCore::State::on(const WriterLost&) {
  tables_.for_each([this](PagedTable& table) {
    for (std::uint32_t index = 0; index < table.pages.size(); ++index) {
      const PageState state = table.pages[index].state;
      if (state != PageState::loading && state != PageState::copying) continue;
      page_not_filled(table, index, FailureKind::device_unhealthy);
    }
  });
}

// A page of an overlay that is no longer being made needs its origin no more.
void PagerCore::State::release_source(PagedTable& table, std::uint32_t index) {
  PageEntry& page = table.pages[index];
  if (!page.holds_source) return;
  page.holds_source = false;
  PagedTable* origin = tables_.find(table.origin);
  CHECK(origin != nullptr);
  unhold(*origin, index);
}

void PagerCore::State::destroy_frame(PagedTable& table, std::uint32_t index) {
  PageEntry& page = table.pages[index];
  CHECK(page.mappers == 0 || PLANTED(early_destroy));
  if (!PLANTED(frame_leaked) || page.state == PageState::evicting)
    out_.push(DestroyFrame{.frame = page.frame});
  tables_.change(table, index, [](PageEntry& entry) { entry.state = PageState::absent; });
}

void PagerCore::State::say_changed(const PagedTable& table, std::uint32_t index) {
  const PageEntry& page = table.pages[index];
  out_.push(PageChanged{.page = table.key(index),
                        .residency = residency_of(page.state),
                        .generation = Generation{page.generation}});
}

void PagerCore::State::say_sharing(const PagedTable& table, std::uint32_t index) {
  out_.push(SharingChanged{.page = table.key(index), .several = table.pages[index].mappers > 1});
}

void PagerCore::State::hold(PagedTable& table, std::uint32_t index) {
  tables_.change(table, index, [](PageEntry& page) { ++page.holds; });
}

void PagerCore::State::unhold(PagedTable& table, std::uint32_t index) {
  CHECK(table.pages[index].holds > 0);
  tables_.change(table, index, [](PageEntry& page) { --page.holds; });
  const PageEntry& page = table.pages[index];
  if (page.holds > 0 || page.state != PageState::resident) return;
  if (table.closing) {
    evict(table, index, table.close_reason);
  } else if (page.drop_unheld && page.mappers == 0) {
    evict(table, index, EvictReason::released);
  }
}

}  // namespace penstock
