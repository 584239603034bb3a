// SPDX-License-Identifier: Apache-2.0
// Any bytes as the value of a label.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

inline constexpr std::size_t label_bytes_max = 128;

// Valid UTF-8 of at most label_bytes_max bytes. Bytes that are no UTF-8 are written %XX, and so is the percent sign, so
// that two different texts never become one; a longer text ends in '~' and 12 hex digits of the SHA-256 of all of it.
// Quotes, backslashes and line ends stay: escaping them is the page's business.
std::string label_text(std::string_view bytes);

// Length of the UTF-8 character at the start of `bytes`; 0 if there is none. Surrogates and overlong forms are none.
std::size_t utf8_length(std::string_view bytes);

}  // namespace penstock
