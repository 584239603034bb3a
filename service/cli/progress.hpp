// SPDX-License-Identifier: Apache-2.0
// A progress bar on standard error; silent where that is no terminal.
#pragma once

#include <cstdint>

#include "dataplane/base/clock.hpp"

namespace penstock {

class Progress {
 public:
  explicit Progress(std::uint64_t bytes_total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // Wipes the bar.

  void show(std::uint64_t bytes_done);

 private:
  const std::uint64_t bytes_total_;
  const bool is_shown_;
  const Nanoseconds started_;
  Nanoseconds next_{0};
};

}  // namespace penstock
