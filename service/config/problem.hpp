// SPDX-License-Identifier: Apache-2.0
// One thing that is wrong with the configuration.
#pragma once

#include <string>

namespace penstock {

struct ConfigProblem {
  std::string file;
  unsigned line = 0;    // From 1; 0 when the problem is the file itself.
  std::string key;      // Full dotted key; may be empty.
  std::string message;  // One line.
};

// "penstock.toml:12: reader.ring_bytes: ..."
std::string to_text(const ConfigProblem& problem);

}  // namespace penstock
