// SPDX-License-Identifier: Apache-2.0
// Random histories against a model that only adds up. Each step of PlayedLedger verifies the ledger's own invariants.
#include <algorithm>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/random.hpp"
#include "tests/unit/policy/played_ledger.hpp"

namespace penstock {
namespace {

using test::milliseconds;
using test::PlayedLedger;
using test::Random;
using test::seconds;

constexpr std::uint64_t capacity_mib = 1000;

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed), played_(options(random_)) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      one();
      check();
    }
    finish();
  }

 private:
  static LedgerOptions options(Random& random) {
    LedgerOptions options = PlayedLedger::of_mib(capacity_mib);
    if (random.one_in(2)) options.per_user_bytes = random.between(100, 1000) * mib;
    if (random.one_in(2)) options.frames_max = random.between(10, 100);
    options.frame_bytes = 8 * mib;
    options.waiting_max = random.between(1, 20);
    return options;
  }

  std::uint32_t some_session() { return static_cast<std::uint32_t>(random_.between(1, 6)); }

  void one() {
    const std::uint32_t number = some_session();
    switch (random_.below(14)) {
      case 0: return close(number);
      case 1:
      case 2:
      case 3:
      case 4: return ask(number);
      case 5:
      case 6:
      case 7: return release();
      case 8:
        if (last_ != DemandId{}) played_.step(ledger::Cancel{.demand = last_});
        return;
      case 9:
        return played_.step(ledger::RoomChanged{.capacity_bytes = capacity_mib * mib,
                                                .headroom_bytes = random_.below(200) * mib,
                                                .foreign_bytes = random_foreign(),
                                                .assumed_foreign_bytes = random_.below(300) * mib,
                                                .total_bytes = (capacity_mib + random_.below(200)) * mib,
                                                .allowed_bytes = random_allowed()});
      case 10: return pins();
      case 11: return played_.pass(milliseconds(random_.below(300)));
      case 12: return play_silence();
      default: return played_.step(ledger::HealthChanged{.healthy = !random_.one_in(4)});
    }
  }

  void close(std::uint32_t number) {
    played_.close(number);
    open_.erase(number);
  }

  void ask(std::uint32_t number) {
    if (open_.insert(number).second) played_.open(number, number % 3);
    const std::uint64_t work = random_.below(600);
    const std::uint64_t minimum = random_.one_in(2) ? 0 : random_.below(work + 1);
    last_ = played_.ask(number, work, milliseconds(random_.below(1000)), minimum,
                        random_.one_in(2) ? random_.below(400) : 0);
  }

  std::uint64_t random_allowed() {
    return random_.one_in(2) ? UINT64_MAX : random_.below(capacity_mib) * mib;
  }

  // Also such that are gone already: that must do nothing.
  // Not known now and then.
  std::optional<std::uint64_t> random_foreign() {
    if (random_.one_in(4)) return std::nullopt;
    return random_.below(300) * mib;
  }
  void release() {
    const auto& all = played_.admits;
    if (all.empty()) return;
    const std::size_t back = 1 + random_.below(std::min<std::size_t>(all.size(), 8));
    const ledger::Admit& admit = std::prev(all.end(), static_cast<std::ptrdiff_t>(back))->second;
    played_.release(raw(admit.session), admit.grant);
  }

  void pins() {
    // Clients pin some of what is there; the pager fills up to its budget.
    played_.pager.used_bytes = random_.below(played_.pager.budget_bytes + 1);
    played_.pager.pinned_bytes = random_.below(played_.pager.used_bytes + 1);
    played_.pager.stuck_bytes = random_.one_in(3) ? played_.pager.used_bytes - played_.pager.pinned_bytes : 0;
  }

  void play_silence() {
    played_.pager.silent = !played_.pager.silent;
    played_.step(ledger::Tick{});
  }

  void check() {
    const LedgerFigures figures = played_.ledger.figures();
    std::uint64_t by_session = 0;
    for (std::uint32_t number = 1; number <= 6; ++number)
      by_session += played_.ledger.booked_bytes(test::session(number));
    ASSERT_EQ(by_session, figures.booked_bytes());
    ASSERT_LE(figures.booked_bytes(), figures.capacity_bytes);
    ASSERT_LE(figures.free_bytes, figures.capacity_bytes);
    ASSERT_LE(figures.pager_budget_bytes, figures.capacity_bytes);
    ASSERT_TRUE(figures.waiting == 0 || played_.ledger.next_deadline());
  }

  void finish() {
    // When everybody is silent, each demand still gets its answer.
    played_.pager.silent = true;
    for (int tick = 0; tick < 1000 && played_.ledger.next_deadline(); ++tick) {
      played_.now = std::max(played_.now, *played_.ledger.next_deadline());
      played_.step(ledger::Tick{});
    }
    ASSERT_EQ(played_.ledger.figures().waiting, 0u);
    for (std::uint32_t number = 1; number <= 6; ++number) played_.close(number);
    const LedgerFigures figures = played_.ledger.figures();
    ASSERT_EQ(figures.booked_bytes(), 0u);
    ASSERT_EQ(figures.grants, 0u);
  }

  Random random_;
  PlayedLedger played_;
  std::set<std::uint32_t> open_;
  DemandId last_{};
};

TEST(LedgerProperty, AnyHistoryKeepsTheAccountAndAnswersEverybody) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    History(seed).run(300);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock
