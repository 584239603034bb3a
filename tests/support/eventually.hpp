// SPDX-License-Identifier: Apache-2.0
// Waits for what another thread does without telling anybody.
#pragma once

#include <chrono>
#include <thread>

namespace penstock {

// False when the condition did not come true within the bound, far above what it needs.
template <class Condition>
bool eventually(Condition condition) {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > bound) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace penstock
