// SPDX-License-Identifier: Apache-2.0
// A ledger with the pager's part played: orders are answered at once, unless the test says otherwise.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/base/check.hpp"
#include "dataplane/base/units.hpp"
#include "service/policy/ledger.hpp"

namespace penstock::test {

constexpr SessionId session(std::uint32_t number) { return SessionId{number}; }
using std::chrono::milliseconds;
using std::chrono::seconds;

// Pages of the device. Within its budget by itself, as far as pages are neither pinned nor stuck.
struct PlayedPager {
  std::uint64_t used_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t stuck_bytes = 0;
  std::uint64_t budget_bytes = 0;
  bool silent = false;

  ledger::BudgetAnswered obey(const ledger::SetBudget& order) {
    budget_bytes = order.bytes;
    const std::uint64_t kept = pinned_bytes + stuck_bytes;
    used_bytes = std::min(used_bytes, std::max(budget_bytes, kept));
    return {.order = order.order,
            .used_bytes = used_bytes,
            .pinned_bytes = pinned_bytes,
            .stuck_bytes = stuck_bytes};
  }
};

class PlayedLedger {
 public:
  explicit PlayedLedger(const LedgerOptions& options) : ledger(options) {
    pager.budget_bytes = ledger.pager_budget_bytes();
  }
  static LedgerOptions of_mib(std::uint64_t capacity_mib) {
    LedgerOptions options;
    options.room.capacity_bytes = capacity_mib * mib;
    return options;
  }

  // Steps, plays the pager, verifies, and sorts the commands.
  void step(const ledger::Event& event) {
    Ledger::Commands commands;
    ledger.step(event, now, commands);
    ledger.verify();
    for (const ledger::Command& command : commands) std::visit([&](const auto& one) { take(one); }, command);
    while (!pager.silent && !orders.empty()) {
      const ledger::SetBudget order = orders.front();
      orders.erase(orders.begin());
      step(pager.obey(order));
    }
  }

  void open(std::uint32_t number, std::uint32_t user = 0) {
    step(ledger::SessionOpened{.session = session(number), .user = user});
  }
  void close(std::uint32_t number) { step(ledger::SessionClosed{.session = session(number)}); }
  DemandId ask(std::uint32_t number, std::uint64_t work_mib, Nanoseconds patience = seconds(5),
               std::uint64_t minimum_mib = 0, std::uint64_t weights_mib = 0) {
    const DemandId demand{++last_demand_};
    step(ledger::Ask{.demand = demand,
                     .session = session(number),
                     .weights_bytes = weights_mib * mib,
                     .work_bytes = work_mib * mib,
                     .minimum_work_bytes = minimum_mib * mib,
                     .deadline = now + patience});
    return demand;
  }
  void release(std::uint32_t number, GrantId grant) {
    step(ledger::Release{.session = session(number), .grant = grant});
  }
  void pass(Nanoseconds time) {
    now += time;
    step(ledger::Tick{});
  }

  std::optional<ledger::Admit> admitted(DemandId demand) const { return find(admits, demand); }
  std::optional<ledger::Refuse> refused(DemandId demand) const { return find(refusals, demand); }
  bool waits(DemandId demand) const { return !admits.contains(demand) && !refusals.contains(demand); }
  std::uint64_t booked_mib() const { return ledger.figures().booked_bytes() / mib; }

  Nanoseconds now = seconds(1000);
  Ledger ledger;
  PlayedPager pager;
  std::map<DemandId, ledger::Admit> admits;
  std::map<DemandId, ledger::Refuse> refusals;
  std::vector<ledger::Queued> queued;
  std::vector<ledger::Released> released;
  std::vector<ledger::NotReleased> not_released;
  std::vector<ledger::SetBudget> orders;  // Not answered yet.

 private:
  template <class Answer>
  static std::optional<Answer> find(const std::map<DemandId, Answer>& answers, DemandId demand) {
    const auto found = answers.find(demand);
    return found == answers.end() ? std::nullopt : std::optional<Answer>(found->second);
  }
  void take(const ledger::Admit& one) {
    CHECK(waits(one.demand));
    // The rule that everything else is for: what has been granted is really free of pages.
    const LedgerFigures figures = ledger.figures();
    if (one.work_bytes > 0) CHECK(pager.used_bytes + figures.booked_work_bytes <= figures.capacity_bytes);
    admits.emplace(one.demand, one);
  }
  void take(const ledger::Refuse& one) {
    CHECK(waits(one.demand));
    refusals.emplace(one.demand, one);
  }
  void take(const ledger::Queued& one) { queued.push_back(one); }
  void take(const ledger::Released& one) { released.push_back(one); }
  void take(const ledger::NotReleased& one) { not_released.push_back(one); }
  void take(const ledger::SetBudget& one) { orders.push_back(one); }

  std::uint64_t last_demand_ = 0;
};

}  // namespace penstock::test
