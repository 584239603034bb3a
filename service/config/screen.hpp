// SPDX-License-Identifier: Apache-2.0
// What is refused before the TOML library sees a text, because it would not refuse it cleanly:
//   * lines so long that nested tables could exhaust the stack;
//   * control characters, which its messages repeat;
//   * characters that are not ASCII, except in comments and in a string that is all the value of its line: the library's
//     table of blanks takes many of them for unreachable, which is undefined behaviour, and it looks there for the end of
//     anything that starts like a number or a date.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

inline constexpr std::size_t config_bytes_max = 1024 * 1024;
inline constexpr std::size_t config_line_bytes_max = 4096;

struct ScreenFault {
  unsigned line = 0;  // From 1; 0: the whole text.
  std::string message;
};

// The first fault.
std::optional<ScreenFault> screen(std::string_view text);

}  // namespace penstock
