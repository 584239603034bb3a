// SPDX-License-Identifier: Apache-2.0
// What may stand in a text field of a message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

// Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8(std::string_view text);
// One line: UTF-8 without control characters.
bool is_line(std::string_view text);
// The nearest line: what is not allowed becomes '?', and it ends before a character that would pass
// `bytes_max`.
std::string to_line(std::string_view text, std::size_t bytes_max);

}  // namespace penstock
