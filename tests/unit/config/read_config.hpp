// SPDX-License-Identifier: Apache-2.0
// Short ways to ask for the verdict on a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/config/load.hpp"

namespace penstock::test {

inline tl::expected<Config, ConfigProblems> read_config(std::string_view text) {
  const ConfigText one{.file = "penstock.toml", .text = std::string(text)};
  return parse_config({&one, 1});
}

// All problems, one a line; empty when there are none.
inline std::string verdict(const tl::expected<Config, ConfigProblems>& config) {
  std::string out;
  if (config) return out;
  for (const ConfigProblem& problem : config.error()) out += to_text(problem) + "\n";
  return out;
}
inline std::string verdict(std::string_view text) { return verdict(read_config(text)); }

}  // namespace penstock::test
