// SPDX-License-Identifier: Apache-2.0
// Faults on demand, by the name of the call and its count in this process.
//
// The plan is a list, separated by ';', of NAME:ACTION[@WHEN]. NAME is a symbol, `*` for each of them, or `copy` and
// `kernel` for work when it runs on a stream. ACTION is a number (answered instead of doing anything), a number and `!`
// (that, and the current context is dead with that code from then on), a number and `~` (answered once it is done), `hang` (the call never returns) or `kill` (the
// process dies by SIGKILL). WHEN is the count of the call, from 1; `4+` from the fourth on; without it always.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::fake {

struct Fault {
  enum class Kind : std::uint8_t { none, answer, late_answer, kills_context, hang, kill };
  Kind kind = Kind::none;
  int code = 0;
};

class FaultPlan {
 public:
  static FaultPlan& instance();  // Begins with $PENSTOCK_FAKE_FAULTS.
  // Replaces the plan and starts all counts anew. Dies of a word that it does not understand.
  void load(std::string_view text);
  // Counts the call and answers what is to happen to it; hang and kill happen here.
  Fault next(std::string_view name);
  std::uint64_t count(std::string_view name);

 private:
  struct Rule {
    std::string name;
    Fault fault;
    std::uint64_t first = 1;
    std::uint64_t last = UINT64_MAX;
  };
  static Rule parse(std::string_view text);

  std::mutex mutex_;
  std::vector<Rule> rules_;
  std::map<std::string, std::uint64_t, std::less<>> counts_;
};

}  // namespace penstock::fake
