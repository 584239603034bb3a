// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/exporters/strict_page.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace penstock::test {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool is_name(std::string_view text, bool colons) {
  const auto fits = [&](char c) { return is_letter(c) || is_digit(c) || (colons && c == ':'); };
  return !text.empty() && !is_digit(text.front()) && std::ranges::all_of(text, fits);
}

std::size_t take_digits(std::string_view& text) {
  const std::size_t count = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  text.remove_prefix(count);
  return count;
}

// 0.5, 12, -3e-06
bool is_number(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (take_digits(text) == 0) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (take_digits(text) == 0) return false;
  }
  if (text.starts_with("e+") || text.starts_with("e-")) {
    text.remove_prefix(2);
    if (take_digits(text) == 0) return false;
  }
  return text.empty();
}

std::optional<double> parse_value(std::string_view text) {
  if (text == "NaN") return NAN;
  if (text == "+Inf") return INFINITY;
  if (text == "-Inf") return -INFINITY;
  if (!is_number(text)) return std::nullopt;
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string_view take_word(std::string_view& rest) {
  const std::size_t end = rest.find(' ');
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return word;
}

}  // namespace

StrictPage::StrictPage(std::string_view text) {
  if (!is_valid_utf8(text)) {
    fail("is no UTF-8", text);
    return;
  }
  if (text.empty() || text.back() != '\n') {
    fail("does not end in a line end", text);
    return;
  }
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(lines.back().size() + 1);
  }
  while (!lines.empty() && parse_family(lines)) continue;
}

std::optional<double> StrictPage::value(std::string_view series) const {
  for (const auto& [name, family] : families_) {
    const auto found = family.samples.find(std::string(series));
    if (found != family.samples.end()) return found->second;
  }
  return std::nullopt;
}

bool StrictPage::fail(std::string_view why, std::string_view line) {
  error_ = std::string(why) + ": " + std::string(line.substr(0, 200));
  return false;
}

bool StrictPage::parse_family(std::vector<std::string_view>& lines) {
  std::string_view help = lines[0];
  if (!help.starts_with("# HELP ")) return fail("wants HELP", help);
  help.remove_prefix(7);
  const std::string name(take_word(help));
  if (!is_name(name, true) || help.empty()) return fail("has a bad HELP", lines[0]);
  if (families_.contains(name)) return fail("shows a family twice", lines[0]);
  if (lines.size() < 2) return fail("lacks TYPE", name);
  std::string_view type = lines[1];
  if (!type.starts_with("# TYPE " + name + " ")) return fail("wants TYPE", type);
  type.remove_prefix(8 + name.size());
  if (type != "counter" && type != "gauge" && type != "histogram") return fail("has an unknown type", type);
  PageFamily family{.type = std::string(type), .help = std::string(help), .samples = {}, .labels = {}};
  std::size_t used = 2;
  for (; used < lines.size() && !lines[used].starts_with('#'); ++used) {
    if (!parse_sample(name, lines[used], family)) return false;
  }
  if (family.samples.empty()) return fail("has no samples", name);
  if (type == "histogram" && !check_histogram(name, family)) return false;
  families_.emplace(name, std::move(family));
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(used));
  return true;
}

bool StrictPage::parse_sample(const std::string& family, std::string_view line, PageFamily& into) {
  std::string_view rest = line;
  const std::string_view name = rest.substr(0, rest.find_first_of("{ "));
  rest.remove_prefix(name.size());
  const std::string_view suffix =
      name.starts_with(family) ? name.substr(family.size()) : std::string_view("?");
  const bool of_histogram = suffix == "_bucket" || suffix == "_sum" || suffix == "_count";
  if (into.type == "histogram" ? !of_histogram : !suffix.empty())
    return fail("stands in another family", line);
  std::map<std::string, std::string> labels;
  if (rest.starts_with('{') && !parse_labels(rest, labels)) return fail("has bad labels", line);
  const std::string series(line.substr(0, line.size() - rest.size()));
  if (!rest.starts_with(' ')) return fail("lacks the space before the value", line);
  const std::optional<double> value = parse_value(rest.substr(1));
  if (!value) return fail("has a bad value", line);
  if (into.type == "counter" && !(*value >= 0 && family.ends_with("_total")))
    return fail("is no counter", line);
  if (!into.samples.emplace(series, *value).second) return fail("shows a series twice", line);
  into.labels.push_back(std::move(labels));
  return true;
}

bool StrictPage::parse_labels(std::string_view& rest, std::map<std::string, std::string>& labels) {
  do {
    rest.remove_prefix(1);  // '{' or ','
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string name(rest.substr(0, equals));
    rest.remove_prefix(equals + 1);
    if (!is_name(name, false) || !rest.starts_with('"')) return false;
    rest.remove_prefix(1);
    std::string value;
    while (!rest.empty() && rest.front() != '"') {
      char c = rest.front();
      rest.remove_prefix(1);
      if (c == '\\') {
        if (rest.empty()) return false;
        const char escaped = rest.front();
        rest.remove_prefix(1);
        if (escaped != '\\' && escaped != '"' && escaped != 'n') return false;
        c = escaped == 'n' ? '\n' : escaped;
      }
      value += c;
    }
    if (rest.empty() || !labels.emplace(name, value).second) return false;
    rest.remove_prefix(1);
  } while (rest.starts_with(','));
  if (!rest.starts_with('}')) return false;
  rest.remove_prefix(1);
  return true;
}

bool StrictPage::check_histogram(const std::string& family, const PageFamily& parsed) {
  // By the labels other than le: bounds and their counts.
  std::map<std::string, std::map<double, double>> buckets;
  for (const auto& [series, value] : parsed.samples) {
    if (!series.starts_with(family + "_bucket")) continue;
    constexpr std::string_view label = "le=\"";
    const std::size_t at = series.rfind(label);
    if (at == std::string::npos || !series.ends_with("\"}")) return fail("lacks le", series);
    const std::string_view text = std::string_view(series).substr(at + label.size());
    const std::optional<double> le = parse_value(text.substr(0, text.size() - 2));
    if (!le) return fail("has a bad bound", series);
    buckets[series.substr(0, series[at - 1] == ',' ? at - 1 : at)][*le] = value;
  }
  for (const auto& [head, counts] : buckets) {
    std::string labels = head.substr(family.size() + 7);
    labels = labels == "{" ? "" : labels + "}";
    const auto total = parsed.samples.find(family + "_count" + labels);
    if (total == parsed.samples.end() || !parsed.samples.contains(family + "_sum" + labels))
      return fail("lacks _count or _sum", head);
    double last = 0;
    for (const auto& [le, count] : counts) {
      if (count < last) return fail("has a falling bucket", head);
      last = count;
    }
    if (!std::isinf(counts.rbegin()->first) || last != total->second) return fail("does not add up", head);
  }
  return !buckets.empty() || fail("has no buckets", family);
}

bool is_valid_utf8(std::string_view text) {
  // By decoding to code points; the code under test goes by the ranges of bytes.
  while (!text.empty()) {
    const unsigned char first = static_cast<unsigned char>(text.front());
    const int zero_at = std::countl_one(first);
    if (zero_at == 1 || zero_at > 4) return false;
    const std::size_t length = zero_at == 0 ? 1 : static_cast<std::size_t>(zero_at);
    if (text.size() < length) return false;
    std::uint32_t point = first & (0xffu >> (zero_at + 1));
    for (std::size_t at = 1; at < length; ++at) {
      const unsigned char next = static_cast<unsigned char>(text[at]);
      if (next >> 6 != 2) return false;
      point = point << 6 | (next & 0x3fu);
    }
    constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace penstock::test
