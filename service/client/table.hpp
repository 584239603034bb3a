// SPDX-License-Identifier: Apache-2.0
// Table: one page table in this process: its address range, its pin words, and what is mapped where.
//
//   T1. A page whose word says mapped is mapped; it stays so while its count is above zero.
//   T2. Words of the current region and the records are changed under the device's lock, except for pins and unpins.
//   T3. A region that was given up stays mapped, all its words `moved`, until the table ends: pins and unpins that still
//       look at it find out, and go to the new one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/result.hpp"
#include "service/client/include/penstock.h"
#include "service/client/page_mapper.hpp"
#include "service/client/pin_words.hpp"
#include "service/protocol/control_messages.hpp"
#include "service/protocol/device_codec.hpp"

namespace penstock {

class Paging;

// What stays the same over all connections.
struct TableShape {
  TableKind kind = TableKind::file;
  RevokeMode mode = RevokeMode::agent;
  bool copy_on_write =
      false;  // Shared pages are mapped so that writes can be allowed, and stay in this process.
  wire::Layout layout = wire::Layout::identity;
  std::uint32_t pages = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t shift_bytes = 0;
  std::uint64_t tensor_offsets = 0;
  friend bool operator==(const TableShape&, const TableShape&) = default;
};

// What one connection gives: the table's numbers and the words shared with the service.
struct TableAttachment {
  std::uint64_t epoch = 0;
  std::uint32_t number = 0;
  std::uint32_t overlay_number = 0;  // 0: none
  Mapping page_words;
  Mapping overlay_words;  // Empty without an overlay.
  Mapping region;
};

// A page that is to be named to the service.
struct PageName {
  std::uint32_t table = 0;
  std::uint32_t page = 0;
  std::uint64_t generation = 0;
};

enum class GrantFate : std::uint8_t {
  place,      // Map it.
  keep,       // The same frame is mapped already.
  give_back,  // Close and release it.
  violation,
};

class Table {
 public:
  // REQUIRES: page_bytes is a power of two, a multiple of 4096; the bytes fit the pages; the mapper is of that many.
  Table(const TableShape& shape, Paging& paging, const std::atomic<std::uint32_t>* birth,
        std::unique_ptr<PageMapper> mapper);
  ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableShape& shape() const { return shape_; }
  Paging& paging() const { return paging_; }
  std::byte* address() const { return mapper_->address(); }
  PageMapper& mapper() { return *mapper_; }
  // The table is over then.
  std::unique_ptr<PageMapper> take_mapper() { return std::move(mapper_); }
  bool forked() const { return birth_->load(std::memory_order_relaxed) == 0; }
  bool cooperative() const { return shape_.mode == RevokeMode::cooperative; }
  // The pages of [offset, offset + bytes), or nullopt when that leaves the table.
  std::optional<PageSpan> span_of(std::uint64_t offset, std::uint64_t bytes) const;

  // ---- pins; any thread ----
  struct PinAttempt {
    PinOutcome outcome = PinOutcome::done;
    std::uint32_t pinned = 0;  // Pages from the first on; to be given back unless the outcome is done.
  };
  PinAttempt pin(PageSpan span);
  // False: a page has no pin to give up; those before it have been given up. `last` is called with each page whose last
  // pin went while the service wants it, `settle` when a new region takes over: it waits for that.
  template <class Last, class Settle>
  bool unpin(PageSpan span, Last last, Settle settle);
  // Each page has a pin, as far as one look can tell.
  bool pinned(PageSpan span) const;
  // Some page that is mapped has one.
  bool any_pinned() const;

  // ---- under the device's lock ----
  bool attached(std::uint64_t epoch) const { return at_.epoch == epoch; }
  const TableAttachment& attachment() const { return at_; }
  bool is_mine(std::uint32_t number) const { return number == at_.number || number == at_.overlay_number; }
  // The words of a new connection. Pages without a pin are unmapped; others stay until their last unpin, and those whose unmap
  // is refused until it is not.
  void attach(TableAttachment attachment);

  GrantFate judge(const wire::GrantEntry& entry) const;
  Result<> place(const wire::GrantEntry& entry, int fd);
  // REQUIRES: neighbours, all with that access.
  Result<> finish_run(PageSpan placed, Access access) { return mapper_->finish_run(placed, access); }
  // The page is mapped now. Returns the shared page that a private one replaced: it is to be released.
  std::optional<PageName> commit(const wire::GrantEntry& entry);
  // Undoes place(). Refused, the page is in no record, and mapped: keep_unfinished.
  Result<> remove(std::uint32_t page) { return mapper_->remove(page); }
  // As commit, of a page that nobody can use and that could not be unmapped: give_up is to be tried again.
  std::optional<PageName> keep_unfinished(const wire::GrantEntry& entry);
  // The page's frame had to go for one that could not take its place: nobody may pin it, and its pins keep nothing. What is
  // to be released; nullopt: it is still there, or nothing was.
  std::optional<PageName> lose(std::uint32_t page);
  // The same of all pages that are not mapped any more.
  std::vector<PageName> lose_unmapped();
  // A frame is there already, under whoever uses it.
  bool replaces(const wire::GrantEntry& entry) const { return records_[entry.page].granted != 0; }
  bool quiet(PageSpan span) const;
  // Who had it open is gone: their pins count no longer. Whether there were any.
  bool drop_pins(std::uint32_t page);

  struct Mapped {
    std::uint64_t generation = 0;
    bool overlay = false;
  };
  std::optional<Mapped> mapped(std::uint32_t page) const;
  PageName name_of(std::uint32_t page) const;
  void note_revoke(std::uint32_t number, std::uint32_t page, std::uint64_t generation);
  PinWord& word(std::uint32_t page) { return words_.load(std::memory_order_relaxed)[page]; }
  // Unmaps a page without pins. False: it is pinned, not mapped or not quiet, or the kernel refused (out of mappings).
  bool give_up(std::uint32_t page);

  // `busy` was answered for the page; its last unpin says `idle`.
  void set_busy(std::uint32_t page) { records_[page].busy = true; }
  bool take_busy(std::uint32_t page) { return std::exchange(records_[page].busy, false); }
  bool inherited(std::uint32_t page) const { return records_[page].inherited; }
  bool is_private(std::uint32_t page) const { return records_[page].personal; }
  bool any_private() const {
    return std::ranges::any_of(records_, [](const Record& record) { return record.personal; });
  }

  // Copy-on-write. REQUIRES: the span is pinned.
  Outcome<void> allow_writes(PageSpan span);
  Outcome<void> end_writes(PageSpan span);

  // The residency and serial of a page, as the shared words show it.
  bool resident(std::uint32_t page) const;
  std::uint64_t serial(std::uint32_t page) const;
  // No other process has this one's frame. REQUIRES: it is mapped here.
  bool is_alone(std::uint32_t page) const;

  std::optional<FailureKind> gone;      // The service closed it.
  std::optional<std::uint32_t> cutoff;  // Pages; told again to a new connection.
  bool prioritized = false;

 private:
  std::optional<PageName> record(const wire::GrantEntry& entry);
  struct Record {
    std::uint64_t granted = 0;          // Generation; 0: nothing of this connection is mapped here.
    std::uint64_t revoked = 0;          // The last one asked back, of the shared page
    std::uint64_t overlay_revoked = 0;  // and of the private one.
    std::uint32_t writers = 0;          // Permissions to write copies.
    bool overlay = false;               // The private page of an overlay is mapped.
    bool personal = false;              // Its content is this client's alone.
    bool inherited = false;             // Mapped from a connection that is lost.
    bool busy = false;
  };

  std::uint64_t word_of(const Mapping& words, std::uint32_t page) const;

  // What a pin needs comes first.
  std::atomic<PinWord*> words_ = nullptr;
  const std::atomic<std::uint32_t>* birth_;
  std::uint32_t page_shift_;
  TableShape shape_;
  Paging& paging_;
  std::unique_ptr<PageMapper> mapper_;
  std::vector<Record> records_;
  TableAttachment at_;
  std::vector<Mapping> given_up_;  // Regions of lost connections.
};

inline std::optional<PageSpan> Table::span_of(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > shape_.bytes || bytes > shape_.bytes - offset) [[unlikely]]
    return std::nullopt;
  if (bytes == 0) return PageSpan{};
  const auto first = static_cast<std::uint32_t>(offset >> page_shift_);
  return PageSpan{first, static_cast<std::uint32_t>((offset + bytes - 1) >> page_shift_) - first + 1};
}

inline Table::PinAttempt Table::pin(PageSpan span) {
  PinWord* const words = words_.load(std::memory_order_acquire) + span.first;
  for (std::uint32_t i = 0; i != span.count; ++i) {
    const PinOutcome outcome = pin_page(words[i]);
    if (outcome != PinOutcome::done) [[unlikely]]
      return {outcome, i};
  }
  return {PinOutcome::done, span.count};
}

template <class Last, class Settle>
bool Table::unpin(PageSpan span, Last last, Settle settle) {
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    while (true) {
      const UnpinOutcome outcome = unpin_page(words_.load(std::memory_order_acquire)[page]);
      if (outcome == UnpinOutcome::done) [[likely]]
        break;
      if (outcome == UnpinOutcome::stray) return false;
      if (outcome == UnpinOutcome::took_mark) {
        last(page);
        break;
      }
      settle();
    }
  }
  return true;
}

}  // namespace penstock
