// SPDX-License-Identifier: Apache-2.0
// A pager for one client and one table, without policy: grants what is faulted, and revokes at random. Checks that the
// client keeps to the rules of its side.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/random.hpp"
#include "tests/unit/client/scripted_service.hpp"

namespace penstock::test {

class ScriptedPager {
 public:
  ScriptedPager(ScriptedDevice& device, ScriptedTable& table, std::uint64_t seed);

  // Serves until `stop` says so and nothing is open any more.
  template <class Stop>
  void run(Stop stop);

  const std::string& broken_rule() const { return broken_; }  // Empty: none.
  std::uint64_t acked() const { return acked_; }
  std::uint64_t busy() const { return busy_; }
  std::uint64_t later() const { return later_; }

  // What a page of a generation is filled with.
  static std::uint8_t fill(std::uint32_t page, std::uint64_t generation) {
    return static_cast<std::uint8_t>(page * 31 + generation * 7 + 1);
  }

 private:
  enum class State : std::uint8_t { absent, granted, revoking, later };
  struct Page {
    State state = State::absent;
    std::uint64_t generation = 0;
    bool wants_idle = false;
  };

  bool step();
  bool settled() const;
  bool batch_open() const { return device_.acknowledged() != device_.last_batch(); }
  void on(const PeerFault& fault);
  void on(const PeerAcked& acked);
  void on(const PeerBusy& busy);
  void on(const PeerIdle& idle);
  void on(const PeerRelease& release);
  template <class Other>
  void on(const Other&) {}
  void serve_faults();
  void revoke_something();
  void require(bool kept, const char* rule) {
    if (!kept && broken_.empty()) broken_ = rule;
  }

  ScriptedDevice& device_;
  ScriptedTable& table_;
  Random random_;
  std::vector<Page> pages_;
  std::deque<PeerFault> faults_;
  std::uint64_t acked_ = 0, busy_ = 0, later_ = 0;
  std::string broken_;
};

template <class Stop>
void ScriptedPager::run(Stop stop) {
  while (!stop() || !settled()) {
    if (!step() && broken_.empty()) continue;
    if (!broken_.empty()) return;
    if (!stop()) revoke_something();
  }
}

}  // namespace penstock::test
