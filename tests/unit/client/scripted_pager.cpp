// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/client/scripted_pager.hpp"

#include <algorithm>
#include <variant>

namespace penstock::test {

ScriptedPager::ScriptedPager(ScriptedDevice& device, ScriptedTable& table, std::uint64_t seed)
    : device_(device), table_(table), random_(seed), pages_(table.pages) {}

bool ScriptedPager::settled() const {
  return faults_.empty() && std::none_of(pages_.begin(), pages_.end(),
                                         [](const Page& page) { return page.state == State::revoking; });
}

bool ScriptedPager::step() {
  // Often nothing is waiting; then it is time to take something away.
  const auto message = device_.next_within(std::chrono::milliseconds(random_.below(2)));
  if (message) std::visit([this](const auto& one) { on(one); }, *message);
  serve_faults();
  return message.has_value() || random_.below(2) == 0;
}

void ScriptedPager::on(const PeerFault& fault) {
  require(fault.table == table_.number && fault.count > 0 && fault.first + fault.count <= pages_.size(),
          "a fault leaves its table");
  if (broken_.empty()) faults_.push_back(fault);
}

void ScriptedPager::serve_faults() {
  if (batch_open() || faults_.empty()) return;
  const PeerFault fault = faults_.front();
  std::vector<GrantedPage> granted;
  std::vector<UniqueFd> frames;
  for (std::uint32_t i = fault.first; i < fault.first + fault.count; ++i) {
    if (pages_[i].state == State::revoking || pages_[i].state == State::later)
      return;  // Its answer comes first.
  }
  for (std::uint32_t i = fault.first; i < fault.first + fault.count; ++i) {
    Page& page = pages_[i];
    if (page.state == State::granted) continue;
    page = {State::granted, page.generation + 1, false};
    frames.push_back(make_frame(fill(i, page.generation)));
    granted.push_back({table_.number, i, page.generation, false, frames.back().get()});
  }
  faults_.pop_front();
  if (granted.empty()) return device_.complete(fault.request, TicketResult::done);
  device_.grant(granted, fault.request);
}

void ScriptedPager::on(const PeerAcked& acked) {
  Page& page = pages_[acked.page];
  require(page.state == State::revoking || page.state == State::later, "acked without a revoke");
  require(acked.generation == page.generation, "acked another generation");
  page.state = State::absent;
  ++acked_;
}

void ScriptedPager::on(const PeerBusy& busy) {
  Page& page = pages_[busy.page];
  require(page.state == State::revoking && busy.generation == page.generation, "busy without a revoke");
  page.state = busy.later ? State::later : State::granted;
  page.wants_idle = !busy.later;
  ++(busy.later ? later_ : busy_);
}

void ScriptedPager::on(const PeerIdle& idle) {
  require(pages_[idle.page].wants_idle, "idle before its busy, or without one");
  pages_[idle.page].wants_idle = false;
}

void ScriptedPager::on(const PeerRelease& release) {
  Page& page = pages_[release.page];
  require(page.generation == release.generation, "released another generation");
  page.state = State::absent;
  page.wants_idle = false;
  if (release.request != 0)
    device_.complete(release.request, TicketResult::done, FailureKind::internal, page_bytes);
}

void ScriptedPager::revoke_something() {
  const auto at = static_cast<std::uint32_t>(random_.below(pages_.size()));
  Page& page = pages_[at];
  if (page.state != State::granted || page.wants_idle) return;
  page.state = State::revoking;
  device_.revoke(table_.number, at, page.generation);
}

}  // namespace penstock::test
