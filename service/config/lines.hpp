// SPDX-License-Identifier: Apache-2.0
// What a line of TOML is about, as far as that can be told without the grammar: used to name the key in a
// message about a line that the TOML library has refused, never to read a value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

// Without line ends; a carriage return before a line end goes too.
std::vector<std::string_view> split_lines(std::string_view text);

// Full dotted key of `lines[index]`, with the section that encloses it; empty when the line sets nothing.
std::string key_of_line(const std::vector<std::string_view>& lines, std::size_t index);

// `section` may be empty.
std::string join_key(std::string_view section, std::string_view key);

}  // namespace penstock
