// SPDX-License-Identifier: Apache-2.0
#include "service/config/problem.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace penstock {

std::string to_text(const ConfigProblem& problem) {
  std::string out = problem.file;
  if (problem.line != 0) out += fmt::format(":{}", problem.line);
  if (!problem.key.empty()) out += ": " + problem.key;
  out += ": " + problem.message;
  // File names may hold anything; a problem is one line.
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

}  // namespace penstock
