// SPDX-License-Identifier: Apache-2.0
// The name of an errno value, as in "EPERM"; a number that has none is told as "errno 4711".
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

namespace penstock {

// Takes errno values of either sign, since io_uring answers with negative ones.
inline std::string errno_name(int value) {
  const char* const name = ::strerrorname_np(std::abs(value));
  return name != nullptr ? name : "errno " + std::to_string(std::abs(value));
}

}  // namespace penstock
