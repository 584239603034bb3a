// SPDX-License-Identifier: Apache-2.0
#include "dataplane/pager/tier_fills.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dataplane/base/check.hpp"

namespace penstock {

void TierFills::open(TierPage page, const Origin& origin, const HostTier::Place& place, Urgency urgency) {
  const auto [entry, added] = open_.emplace(page, Open{.origin = origin, .urgency = urgency, .readers = {}});
  CHECK(added);
  if (urgency == Urgency::bulk) bulk_bytes_ += access_.tier->page_bytes();
  if (place.way == TierBook::Way::fill) start(page, entry->second, place);
}

// The whole page, in reads as long as those straight into frames.
void TierFills::start(TierPage page, Open& open, const HostTier::Place& place) {
  const CheckpointFile& file = *open.origin.checkpoint;
  const std::uint64_t first = page.index * access_.tier->page_bytes();
  const std::uint64_t end = std::min(first + access_.tier->page_bytes(), file.identity().bytes);
  const std::uint64_t granule = file.direct().usable ? file.direct().offset_granule : 1;
  CHECK(first < end);
  open.filling = true;
  open.frame = place.frame;
  open.serial = ++last_serial_;
  by_serial_.emplace(open.serial, page);
  std::uint64_t number = 0;
  for (std::uint64_t at = first; at < end; at += read_bytes_max_) {
    const std::uint64_t needed = std::min(read_bytes_max_, end - at);
    ++open.open_reads;
    stream_.push({.file = open.origin.file,
                  .extent = {.offset = at, .length = round_up(needed, granule)},
                  .needed_bytes = needed,
                  .destination = place.memory.data() + (at - first),
                  .slot = no_slot,
                  .urgency = open.urgency,
                  .tag = tag_bit | std::uint64_t{open.serial} << 16 | number++});
  }
}

void TierFills::leave(TierPage page, Reader reader) {
  const auto found = open_.find(page);
  if (found == open_.end()) return;
  std::erase(found->second.readers, reader);
  if (found->second.readers.empty() && !found->second.filling) end(found, {});
}

TableId TierFills::take(const ReadStream::Answer& answer) {
  const auto page = by_serial_.find(static_cast<std::uint32_t>((answer.tag & ~tag_bit) >> 16));
  CHECK(page != by_serial_.end());
  const auto found = open_.find(page->second);
  CHECK(found != open_.end());
  Open& open = found->second;
  --open.open_reads;
  if (!answer.ok) fail(open, answer);
  const TableId table = open.origin.table;
  if (open.open_reads > 0) return table;
  if (!open.failure) {
    // T1: the file that was opened has supplied all of it.
    Outcome<void> unchanged = open.origin.checkpoint->verify_unchanged();
    if (!unchanged) {
      open.failure = std::move(unchanged.error());
      access_.tier->forget(found->first.file);
    }
  }
  access_.tier->filled(open.frame, !open.failure);
  Over over{.readers = std::move(open.readers), .filled_here = true, .failure = std::move(open.failure)};
  by_serial_.erase(page);
  end(found, std::move(over));
  return table;
}

void TierFills::fail(Open& open, const ReadStream::Answer& answer) {
  if (open.failure) return;
  Failure failure = describe(answer, open.origin.checkpoint->identity().bytes);
  // A file that shrank says more than "it ended early".
  if (answer.kind != FailureKind::cancelled) {
    Outcome<void> unchanged = open.origin.checkpoint->verify_unchanged();
    if (!unchanged) failure = std::move(unchanged.error());
  }
  open.failure = std::move(failure);
  const std::uint64_t first_tag = tag_bit | std::uint64_t{open.serial} << 16;
  for (std::uint64_t number = 0; number < reads_of_a_fill(); ++number) {
    if ((first_tag | number) != answer.tag) stream_.cancel(first_tag | number);
  }
}

void TierFills::ask_again() {
  for (auto next = open_.begin(); next != open_.end();) {
    const auto found = next++;
    Open& open = found->second;
    if (open.filling) continue;
    // Only to see how it stands: each reader asks for itself.
    const HostTier::Place place = access_.tier->ask(access_.user, found->first);
    switch (place.way) {
      case TierBook::Way::wait:
      case TierBook::Way::create: break;
      case TierBook::Way::fill: start(found->first, open, place); break;
      case TierBook::Way::held: access_.tier->unpin(place.frame); [[fallthrough]];
      case TierBook::Way::pass: end(found, {.readers = std::move(open.readers)}); break;
    }
  }
}

void TierFills::end(std::map<TierPage, Open>::iterator open, Over over) {
  if (open->second.urgency == Urgency::bulk) bulk_bytes_ -= access_.tier->page_bytes();
  open_.erase(open);
  if (!over.readers.empty()) over_.push_back(std::move(over));
}

bool TierFills::busy(TableId table) const {
  return std::ranges::any_of(open_, [table](const auto& entry) {
    return entry.second.filling && entry.second.origin.table == table;
  });
}

std::string TierFills::waits_for() const {
  for (const auto& [page, open] : open_) {
    if (!open.filling) continue;
    return fmt::format("a read of {} bytes at {} of checkpoint {}", access_.tier->page_bytes(),
                       page.index * access_.tier->page_bytes(), open.origin.checkpoint->identity().id());
  }
  return {};
}

}  // namespace penstock
