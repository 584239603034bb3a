// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/page_tables.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

constexpr std::uint16_t bit(PageClass page_class, bool set) {
  return set ? static_cast<std::uint16_t>(page_class) : std::uint16_t{0};
}

std::uint16_t* count_of(PageEntry& page, MappingWeight weight) {
  switch (weight) {
    case MappingWeight::busy: return &page.busy;
    case MappingWeight::slow: return &page.slow;
    case MappingWeight::blocked: return &page.blocked;
    case MappingWeight::nothing:
    case MappingWeight::light: break;
  }
  return nullptr;
}

void reweigh(PageEntry& page, MappingWeight from, MappingWeight to) {
  if (std::uint16_t* count = count_of(page, from)) --*count;
  if (std::uint16_t* count = count_of(page, to)) ++*count;
}

}  // namespace

PagedTable& PageTables::open(const TableOpened& opened, PagingSession* owner) {
  auto table = std::make_unique<PagedTable>();
  table->id = opened.table;
  table->kind = opened.kind;
  table->origin = opened.origin;
  table->owner = owner;
  table->pages.resize(opened.pages);
  const auto [place, added] = tables_.emplace(opened.table, std::move(table));
  CHECK(added);
  policy_->table_opened(opened.table, opened.kind);
  return *place->second;
}

void PageTables::start_closing(PagedTable& table, EvictReason reason) {
  CHECK(!table.closing && table.mappers.empty());
  policy_->table_closed(table.id);
  table.closing = true;
  table.close_reason = reason;
}

void PageTables::erase(PagedTable& table) {
  CHECK(table.closing && table.used == 0 && table.tickets.empty());
  tables_.erase(table.id);
}

void PageTables::attach(TableMapping& mapping) {
  PagedTable& table = *mapping.table;
  table.mappers.push_back(&mapping);
  policy_->table_used_by(table.id, static_cast<std::uint32_t>(table.mappers.size()));
}

void PageTables::detach(TableMapping& mapping) {
  PagedTable& table = *mapping.table;
  CHECK(std::erase(table.mappers, &mapping) == 1);
  policy_->table_used_by(table.id, static_cast<std::uint32_t>(table.mappers.size()));
}

void PageTables::set_mapping(TableMapping& mapping, std::uint32_t index, MappingState to) {
  const MappingState from = mapping.state(index);
  if (from == to) return;
  PagingSession& session = *mapping.session;
  std::uint8_t serial = mapping.serial(index);
  if (to == MappingState::revoking) serial = static_cast<std::uint8_t>((serial + 1) % TableMapping::serials);
  mapping.words[index] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(to) | serial << 3);
  change(*mapping.table, index, [&](PageEntry& page) {
    if (from == MappingState::none) {
      CHECK(page.mappers < 0xffff);
      ++page.mappers;
      ++session.mapped;
    } else if (to == MappingState::none) {
      --page.mappers;
      --session.mapped;
    }
    reweigh(page, weight_of(from, session.stuck), weight_of(to, session.stuck));
  });
}

void PageTables::set_stuck(PagingSession& session, bool stuck) {
  CHECK(session.stuck != stuck);
  session.stuck = stuck;
  for (const auto& [id, mapping] : session.mappings) {
    for (std::uint32_t index = 0; index < mapping->words.size(); ++index) {
      const MappingState state = mapping->state(index);
      if (state == MappingState::none) continue;
      change(*mapping->table, index,
             [&](PageEntry& page) { reweigh(page, weight_of(state, !stuck), weight_of(state, stuck)); });
    }
  }
}

std::uint32_t PageTables::total(PageClass page_class) const {
  return totals_[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint16_t>(page_class)))];
}

std::uint16_t PageTables::classify(const PagedTable& table, const PageEntry& page) {
  const bool used = page.state != PageState::absent;
  const bool leaves = page.state == PageState::evicting;
  const bool prompt = leaves && page.blocked == 0 && page.slow == 0;
  const bool evictable = page.state == PageState::resident && page.holds == 0 && page.busy == 0 &&
                         page.slow == 0 && page.blocked == 0 && !table.closing;
  const int classes =
      bit(PageClass::used, used) | bit(PageClass::resident, page.state == PageState::resident) |
      bit(PageClass::private_frame, used && table.is_private()) |
      bit(PageClass::loose_load, in_flight(page.state) && page.holds == 0) | bit(PageClass::leaving, prompt) |
      bit(PageClass::leaving_slow, leaves && page.blocked == 0 && page.slow > 0) |
      bit(PageClass::stuck, used && page.blocked > 0) | bit(PageClass::evictable, evictable) |
      bit(PageClass::requested, prompt && page.reason == EvictReason::request) |
      bit(PageClass::arriving, in_flight(page.state));
  return static_cast<std::uint16_t>(classes);
}

void PageTables::apply(PagedTable& table, std::uint32_t index, std::uint16_t before, std::uint16_t after) {
  const std::uint16_t changed = before ^ after;
  if (changed == 0) return;
  for (std::size_t place = 0; place < page_classes; ++place) {
    if ((changed >> place & 1) == 0) continue;
    totals_[place] += (after >> place & 1) != 0 ? 1u : ~0u;
  }
  const auto step = [changed, after](PageClass page_class, std::uint32_t& count) {
    if (is(changed, page_class)) count += is(after, page_class) ? 1u : ~0u;
  };
  step(PageClass::used, table.used);
  step(PageClass::resident, table.resident);
  if (table.owner != nullptr) step(PageClass::private_frame, table.owner->private_frames);
  if (!is(changed, PageClass::evictable)) return;
  if (is(after, PageClass::evictable)) {
    policy_->became_evictable(table.key(index));
  } else {
    policy_->no_longer_evictable(table.key(index));
  }
}

}  // namespace penstock
