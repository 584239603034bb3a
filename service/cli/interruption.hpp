// SPDX-License-Identifier: Apache-2.0
// Turns SIGINT, SIGTERM and SIGHUP into a question that long work asks between two steps, so that it can clean up.
#pragma once

#include <array>

#include <signal.h>

namespace penstock {

// One at a time in a process; restores what was there when it ends.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  bool is_wanted() const;

 private:
  static constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace penstock
