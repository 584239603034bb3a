// SPDX-License-Identifier: Apache-2.0
// What the service did to be neither slowed down nor killed by the pressure that it answers.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

struct ProtectionReport {
  int oom_score = 0;               // Of the kernel's killer: less is later.
  std::uint64_t locked_bytes = 0;  // Of mappings that stay in memory once touched: code, data, stacks, heaps.
  std::uint64_t refused_bytes = 0;  // Of those that the kernel did not let be locked.
  std::string why;                  // One line; empty when nothing was refused.
};

}  // namespace penstock
