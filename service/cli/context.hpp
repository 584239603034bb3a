// SPDX-License-Identifier: Apache-2.0
// What every command gets from the global options, and how it answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "dataplane/base/failure.hpp"

namespace penstock {

// Keys in the order in which they were put in, as the documentation shows them.
using Json = nlohmann::ordered_json;

enum class ColorMode : std::uint8_t { automatic, on, off };

// What a program gets back. A script may branch on them: they never change.
inline constexpr int exit_done = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_unreachable = 3;

struct Context {
  std::string socket;  // Path of the service's control socket.
  bool json = false;
  ColorMode color = ColorMode::automatic;

  // Whether text on standard output may carry colours (`--color`, NO_COLOR, a terminal).
  bool has_color() const;
  // Writes text to standard output, and one line of JSON; both flush. False when standard output is closed or full.
  bool print_text(std::string_view text) const;
  bool print_json(const Json& value) const;
  // Tells the failure (JSON on standard output, else text on standard error) and returns the exit code it means.
  int report(const Failure& failure) const;
  // exit_done, or exit_failed with a word on standard error when the answer could not be written.
  int finish(bool printed) const;
};

// The name as it is where it is harmless, else quoted.
std::string printable(std::string_view name);

}  // namespace penstock
