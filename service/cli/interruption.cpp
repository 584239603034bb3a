// SPDX-License-Identifier: Apache-2.0
#include "service/cli/interruption.hpp"

namespace penstock {
namespace {

volatile sig_atomic_t wanted = 0;

void on_signal(int) { wanted = 1; }

}  // namespace

Interruption::Interruption() {
  wanted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (std::size_t index = 0; index < signals.size(); ++index)
    ::sigaction(signals[index], &action, &before_[index]);
}

Interruption::~Interruption() {
  for (std::size_t index = 0; index < signals.size(); ++index)
    ::sigaction(signals[index], &before_[index], nullptr);
}

bool Interruption::is_wanted() const { return wanted != 0; }

}  // namespace penstock
