// SPDX-License-Identifier: Apache-2.0
#include "service/config/nearest.hpp"

#include <algorithm>
#include <vector>

#include "service/config/keys.hpp"

namespace penstock {
namespace {

constexpr std::size_t compared_max = 128;  // Longer words are far from any key anyway.
constexpr std::size_t section_cost_max = 6;
constexpr std::size_t name_weight = 3;

std::string_view leading(std::string_view text) { return text.substr(0, compared_max); }

std::size_t cost(std::string_view unknown, const ConfigKey& key) {
  const std::size_t dot = unknown.rfind('.');
  const bool has_section = dot != std::string_view::npos;
  const std::string_view section = has_section ? unknown.substr(0, dot) : std::string_view();
  const std::string_view name = has_section ? unknown.substr(dot + 1) : unknown;
  return name_weight * edit_distance(name, key.name()) +
         std::min(section_cost_max, edit_distance(section, key.section()));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = leading(a);
  b = leading(b);
  // Rows of the usual table: two above, one above, current.
  std::vector<std::size_t> above2(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], above2[j - 2] + 1);
    }
    above2.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string_view nearest_key(std::string_view unknown) {
  return std::ranges::min_element(config_keys(), {}, [&](const ConfigKey& key) { return cost(unknown, key); })
      ->path;
}

}  // namespace penstock
