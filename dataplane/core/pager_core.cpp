// SPDX-License-Identifier: Apache-2.0
#include "dataplane/core/pager_core.hpp"

#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/core/pager_state.hpp"

namespace penstock {

PagerCore::State::State(const PagerCoreOptions& options, std::unique_ptr<EvictionPolicy> policy)
    : options_(options), budget_(options.budget_frames), tables_(std::move(policy)) {}

bool PagerCore::State::step(const Event& event, Nanoseconds now, CommandBuffer& commands) {
  CHECK(commands.room() >= command_buffer_min);
  now_ = now;
  out_.begin(commands);
  std::visit([this](const auto& content) { on(content); }, event);
  pump();
  return more_ || out_.waits();
}

// Until nothing moves, or nothing more fits. Order: what gives frames back, then who takes them, oldest
// first.
void PagerCore::State::pump() {
  bool moved = true;
  while (moved && out_.has_room()) {
    moved = work_on_closing_tables();
    moved |= shrink_to_budget();
    moved |= serve_evict_request();
    moved |= take_for_faults();
    moved |= take_for_prefetches();
    moved |= grant_to_woken();
    if (!moved) moved = finish_budget();
  }
  more_ = !out_.has_room();
}

PagerCounts PagerCore::State::counts() const {
  PagerCounts counts = counts_;
  counts.budget_frames = budget_;
  counts.used_frames = used();
  counts.resident_frames = tables_.total(PageClass::resident);
  counts.arriving_frames = tables_.total(PageClass::arriving);
  counts.private_frames = tables_.total(PageClass::private_frame);
  counts.stuck_frames = tables_.total(PageClass::stuck);
  return counts;
}

PagerCore::PagerCore(const PagerCoreOptions& options, std::unique_ptr<EvictionPolicy> policy)
    : state_(std::make_unique<State>(options, std::move(policy))) {}
PagerCore::~PagerCore() = default;

bool PagerCore::step(const Event& event, Nanoseconds now, CommandBuffer& commands) {
  return state_->step(event, now, commands);
}
std::optional<Nanoseconds> PagerCore::next_deadline() const { return state_->next_deadline(); }
PagerCounts PagerCore::counts() const { return state_->counts(); }

Residency PagerCore::residency(PageKey page) const {
  const PagedTable* table = state_->find_table(page.table);
  return table == nullptr || page.index >= table->pages.size() ? Residency::absent
                                                               : residency_of(table->pages[page.index].state);
}

std::uint32_t PagerCore::resident_frames(TableId table) const {
  const PagedTable* found = state_->find_table(table);
  return found == nullptr ? 0 : found->resident;
}

void PagerCore::verify() const { state_->verify(); }

}  // namespace penstock
