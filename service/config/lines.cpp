// SPDX-License-Identifier: Apache-2.0
#include "service/config/lines.hpp"

namespace penstock {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// "[a.b]" -> "a.b"; empty for any other line.
std::string_view section_of(std::string_view line) {
  std::string_view text = trimmed(line);
  if (!text.starts_with('[')) return {};
  while (text.starts_with('[')) text.remove_prefix(1);
  return trimmed(text.substr(0, text.find(']')));
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::string join_key(std::string_view section, std::string_view key) {
  if (section.empty()) return std::string(key);
  return std::string(section) + "." + std::string(key);
}

std::string key_of_line(const std::vector<std::string_view>& lines, std::size_t index) {
  if (index >= lines.size()) return {};
  if (const std::string_view section = section_of(lines[index]); !section.empty())
    return std::string(section);
  const std::size_t equals = lines[index].find('=');
  const std::string_view key = trimmed(lines[index].substr(0, equals));
  if (equals == std::string_view::npos || key.empty() || key.starts_with('#')) return {};
  for (std::size_t above = index; above > 0; --above) {
    const std::string_view section = section_of(lines[above - 1]);
    if (!section.empty()) return join_key(section, key);
  }
  return std::string(key);
}

}  // namespace penstock
