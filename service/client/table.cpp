// SPDX-License-Identifier: Apache-2.0
#include "service/client/table.hpp"

#include <algorithm>
#include <bit>

#include "dataplane/base/check.hpp"

namespace penstock {

Table::Table(const TableShape& shape, Paging& paging, const std::atomic<std::uint32_t>* birth,
             std::unique_ptr<PageMapper> mapper)
    : birth_(birth),
      page_shift_(static_cast<std::uint32_t>(std::countr_zero(shape.page_bytes))),
      shape_(shape),
      paging_(paging),
      mapper_(std::move(mapper)),
      records_(shape.pages) {
  CHECK(std::has_single_bit(shape.page_bytes) && shape.page_bytes % small_page_bytes == 0);
  CHECK(shape.bytes <= shape.pages * shape.page_bytes);
}

bool Table::pinned(PageSpan span) const {
  const PinWord* const words = words_.load(std::memory_order_acquire);
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    const std::uint64_t word = words[page].load(std::memory_order_relaxed);
    // A word that moves right now is looked at again by the unpin itself.
    if (pstw_pin_count(word) == 0 && pstw_pin_state(word) != pin_state_moved) return false;
  }
  return true;
}

bool Table::any_pinned() const {
  const PinWord* const words = words_.load(std::memory_order_acquire);
  return std::any_of(words, words + shape_.pages, [](const PinWord& word) {
    const std::uint64_t seen = word.load(std::memory_order_relaxed);
    return pstw_pin_count(seen) > 0 && pstw_pin_state(seen) != PSTW_PIN_UNMAPPED;
  });
}

void Table::attach(TableAttachment attachment) {
  auto* const next = reinterpret_cast<PinWord*>(attachment.region.data());
  PinWord* const before = words_.load(std::memory_order_relaxed);
  for (std::uint32_t page = 0; before != nullptr && page < shape_.pages; ++page) {
    const std::uint64_t word =
        before[page].exchange(pstw_pin_word(pin_state_moved, 0), std::memory_order_acq_rel);
    Record& record = records_[page];
    // Revoking: its unmap was refused, and nobody may pin it.
    const bool mapped = pstw_pin_state(word) != PSTW_PIN_UNMAPPED;
    const bool pinned = mapped && pstw_pin_count(word) > 0;
    const bool keep = pinned || (mapped && (!mapper_->quiet(page) || !remove(page)));
    record = {.writers = keep ? record.writers : 0, .personal = keep && record.personal, .inherited = keep};
    // Its last unpin takes the mark, and unmaps the page.
    if (keep) next[page].store(pinned ? word | PSTW_PIN_WANTED : word, std::memory_order_relaxed);
    // A page that was lost under pins: they are still to be given up.
    if (!mapped) next[page].store(word & PSTW_PIN_COUNT_MASK, std::memory_order_relaxed);
  }
  if (at_.region) given_up_.push_back(std::move(at_.region));
  at_ = std::move(attachment);
  gone.reset();
  words_.store(next, std::memory_order_release);
}

GrantFate Table::judge(const wire::GrantEntry& entry) const {
  const bool overlay = entry.table != at_.number;
  const bool personal = overlay || shape_.kind == TableKind::anonymous;
  if (entry.page >= shape_.pages || entry.writable != personal) return GrantFate::violation;
  const Record& record = records_[entry.page];
  if (entry.generation < (overlay ? record.overlay_revoked : record.revoked)) return GrantFate::give_back;
  if (record.inherited) {
    // The same bytes may take the place of those of the lost service under a pin; others may not.
    const bool stays = record.personal || record.writers > 0 || !mapper_->replaces_at_once();
    return stays ? GrantFate::give_back : GrantFate::place;
  }
  if (record.granted == 0) return GrantFate::place;
  if (record.overlay == overlay) {
    return record.granted == entry.generation ? GrantFate::keep : GrantFate::violation;
  }
  return overlay ? GrantFate::place : GrantFate::give_back;
}

Result<> Table::place(const wire::GrantEntry& entry, int fd) {
  return mapper_->place(entry.page, fd, entry.writable ? Access::read_write : Access::read);
}

std::optional<PageName> Table::record(const wire::GrantEntry& entry) {
  Record& record = records_[entry.page];
  std::optional<PageName> replaced;
  if (record.granted != 0) replaced = PageName{at_.number, entry.page, record.granted};
  const bool overlay = entry.table != at_.number;
  record.granted = entry.generation;
  record.overlay = overlay;
  record.personal = overlay || shape_.kind == TableKind::anonymous;
  record.inherited = false;
  record.busy = false;
  return replaced;
}

std::optional<PageName> Table::commit(const wire::GrantEntry& entry) {
  const auto replaced = record(entry);
  PinWord& pin = word(entry.page);
  if (pstw_pin_state(pin.load(std::memory_order_relaxed)) != PSTW_PIN_MAPPED) set_mapped(pin);
  return replaced;
}

std::optional<PageName> Table::keep_unfinished(const wire::GrantEntry& entry) {
  const auto replaced = record(entry);
  PinWord& pin = word(entry.page);
  set_revoking(pin);
  return replaced;
}

std::optional<PageName> Table::lose(std::uint32_t page) {
  Record& record = records_[page];
  if (mapper_->is_mapped(page) || (record.granted == 0 && !record.inherited)) return std::nullopt;
  const PageName name = name_of(page);
  set_unmapped(word(page));
  record = {.revoked = record.revoked, .overlay_revoked = record.overlay_revoked};
  if (name.generation == 0) return std::nullopt;  // Its service is gone.
  return name;
}

std::vector<PageName> Table::lose_unmapped() {
  std::vector<PageName> lost;
  for (std::uint32_t page = 0; page < shape_.pages; ++page) {
    if (const auto name = lose(page)) lost.push_back(*name);
  }
  return lost;
}

bool Table::quiet(PageSpan span) const {
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    if (!mapper_->quiet(page)) return false;
  }
  return true;
}

bool Table::drop_pins(std::uint32_t page) {
  if (!penstock::drop_pins(word(page))) return false;
  if (mapper_->is_mapped(page)) mapper_->note_unknown(page);
  return true;
}

std::optional<Table::Mapped> Table::mapped(std::uint32_t page) const {
  const Record& record = records_[page];
  if (record.granted == 0) return std::nullopt;
  return Mapped{record.granted, record.overlay};
}

PageName Table::name_of(std::uint32_t page) const {
  const Record& record = records_[page];
  return {record.overlay ? at_.overlay_number : at_.number, page, record.granted};
}

void Table::note_revoke(std::uint32_t number, std::uint32_t page, std::uint64_t generation) {
  Record& record = records_[page];
  std::uint64_t& revoked = number == at_.number ? record.revoked : record.overlay_revoked;
  revoked = std::max(revoked, generation);
}

bool Table::give_up(std::uint32_t page) {
  PinWord& pin = word(page);
  if (pstw_pin_state(pin.load(std::memory_order_relaxed)) != PSTW_PIN_REVOKING) {
    if (!mapper_->quiet(page) || !start_revoke(pin)) return false;
  }
  // Somebody may have pinned and unpinned it between; or the kernel is out of mappings. The word stays `revoking`, and the
  // page is asked for again later.
  if (!mapper_->quiet(page) || !mapper_->remove(page)) return false;
  set_unmapped(pin);
  Record& record = records_[page];
  record = {.revoked = record.revoked, .overlay_revoked = record.overlay_revoked};
  return true;
}

Outcome<void> Table::allow_writes(PageSpan span) {
  if (!shape_.copy_on_write || shape_.kind == TableKind::anonymous) {
    return fail(FailureKind::unsupported, "the table was not opened with copy_on_write");
  }
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    if (records_[page].writers++ > 0 || records_[page].personal) continue;
    if (mapper_->make_writable(page)) continue;
    (void)end_writes({span.first, page - span.first + 1});
    return fail(FailureKind::exhausted, "no memory for writable copies of a page");
  }
  return {};
}

Outcome<void> Table::end_writes(PageSpan span) {
  for (std::uint32_t page = span.first; page != span.end(); ++page) {
    if (records_[page].writers == 0)
      return fail(FailureKind::unpinned, "writes to the page were not allowed");
    if (--records_[page].writers > 0 || records_[page].personal) continue;
    if (!mapper_->drop_copies(page)) {
      return fail(FailureKind::exhausted, "the copies of a page can't be dropped");
    }
  }
  return {};
}

std::uint64_t Table::word_of(const Mapping& words, std::uint32_t page) const {
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(words.data())[page].load(
      std::memory_order_acquire);
}

bool Table::resident(std::uint32_t page) const { return serial(page) != 0; }

bool Table::is_alone(std::uint32_t page) const {
  return is_private(page) || (word_of(at_.page_words, page) & PSTW_PAGE_SEVERAL) == 0;
}

std::uint64_t Table::serial(std::uint32_t page) const {
  // A page that is being evicted still has its content; so has one that the lost service left us.
  const auto generation = [](std::uint64_t word) {
    const std::uint32_t residency = pstw_page_residency(word);
    return residency == PSTW_RESIDENT || residency == PSTW_EVICTING ? pstw_page_generation(word) : 0;
  };
  // Another run of the service counts its generations from the start.
  constexpr std::uint32_t epoch_shift = 48;
  const auto serial_of = [&](std::uint64_t own, std::uint64_t kind) {
    const std::uint64_t low = (own << 1 | kind) & ((std::uint64_t{1} << epoch_shift) - 1);
    return own == 0 ? 0 : at_.epoch << epoch_shift | low;
  };
  if (at_.overlay_words) {
    if (const std::uint64_t own = generation(word_of(at_.overlay_words, page)); own != 0)
      return serial_of(own, 1);
  }
  return serial_of(generation(word_of(at_.page_words, page)), 0);
}

}  // namespace penstock
