// SPDX-License-Identifier: Apache-2.0
// TOML text as a flat list of keys with their lines. The only file of the project that knows the TOML library
// is document.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "service/config/problem.hpp"

namespace penstock {

// A value of a type that no key takes: "an array", "a date".
struct OtherValue {
  std::string_view what;
};
using ConfigValue = std::variant<bool, std::int64_t, double, std::string, OtherValue>;

struct ConfigEntry {
  std::string key;  // Dotted; parts that are no bare TOML keys are in quotes.
  ConfigValue value;
  unsigned line = 0;
};

struct ConfigDocument {
  std::vector<ConfigEntry> entries;  // In the order of their lines.
  std::vector<ConfigProblem> problems;
};

// Goes on after a key that is set twice and after an integer that is too large. Any other error in the
// grammar ends the reading of the document: what stands before it is still looked at.
ConfigDocument parse_document(std::string_view text, const std::string& file);

}  // namespace penstock
