// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/rules.hpp"

#include <cstdio>
#include <cstdlib>

namespace penstock::sim {
namespace {

int number_of(Rule rule) { return rule == Rule::protocol ? 0 : static_cast<int>(rule) + 1; }

}  // namespace

void must(Rule rule, bool holds, std::string_view what) {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "P%d: broken: %.*s\n", number_of(rule), static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace penstock::sim
