// SPDX-License-Identifier: Apache-2.0
#include "service/config/document.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

// Header-only and without exceptions: the distribution's shared library is built with them.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// The library asserts that a section's name starts with a letter of a name, which a file may well break, and with NDEBUG
// lets clang assume it. With an empty assertion both go on to the error message behind it.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include "dataplane/base/quote.hpp"
#include "service/config/lines.hpp"
#include "service/config/screen.hpp"

namespace penstock {
namespace {

constexpr int repairs_max = 32;

bool is_bare(std::string_view key) {
  const auto bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !key.empty() && std::ranges::all_of(key, bare);
}

std::string key_part(std::string_view key) { return is_bare(key) ? std::string(key) : quote(key); }

ConfigValue value_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (node.is_table()) return OtherValue{"a table"};
  if (node.is_array()) return OtherValue{"an array"};
  return OtherValue{"a date or time"};
}

void flatten(const toml::table& table, const std::string& section, std::vector<ConfigEntry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string path = join_key(section, key_part(key.str()));
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      flatten(*inner, path, entries);
      continue;
    }
    const unsigned line = key.source().begin.line != 0 ? key.source().begin.line : node.source().begin.line;
    entries.push_back({.key = path, .value = value_of(node), .line = line});
  }
}

std::vector<ConfigEntry> entries_of(const toml::table& table) {
  std::vector<ConfigEntry> entries;
  flatten(table, "", entries);
  std::ranges::stable_sort(entries, {}, &ConfigEntry::line);
  return entries;
}

// Where `key` is set in the lines before `line`; 0 when that can't be told.
unsigned earlier_line(std::string_view prefix, std::string_view key) {
  const toml::parse_result before = toml::parse(prefix);
  if (!before) return 0;
  for (const ConfigEntry& entry : entries_of(before.table())) {
    if (entry.key == key || entry.key.starts_with(std::string(key) + ".")) return entry.line;
  }
  return 0;
}

enum class SyntaxFault { set_twice, integer_too_large, other };

SyntaxFault classify(std::string_view description) {
  if (description.find("redefine") != std::string_view::npos) return SyntaxFault::set_twice;
  if (description.find("not representable") != std::string_view::npos) return SyntaxFault::integer_too_large;
  return SyntaxFault::other;
}

std::string one_line(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return out;
}

// The text with its faults taken out, one after the other, until the library accepts it.
class Repair {
 public:
  Repair(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  ConfigDocument run() {
    for (int round = 0; round < repairs_max; ++round) {
      if (refused_unread()) break;
      const toml::parse_result result = toml::parse(std::string_view(text_));
      if (result) {
        document_.entries = entries_of(result.table());
        return std::move(document_);
      }
      if (!report(result.error())) break;
    }
    return std::move(document_);
  }

 private:
  // Each round anew: a repair may turn what was in a string into plain text.
  bool refused_unread() {
    const std::optional<ScreenFault> fault = screen(text_);
    if (!fault) return false;
    if (!cut_)
      document_.problems.push_back(
          {.file = file_,
           .line = fault->line,
           .key = fault->line == 0 ? "" : key_of_line(split_lines(text_), fault->line - 1),
           .message = fault->message});
    return true;
  }

  // False when nothing is left to look at.
  bool report(const toml::parse_error& error) {
    const std::vector<std::string_view> lines = split_lines(text_);
    const std::size_t index =
        std::min<std::size_t>(lines.size(), std::max<std::size_t>(error.source().begin.line, 1)) - 1;
    const std::string key = key_of_line(lines, index);
    const std::size_t begin = static_cast<std::size_t>(lines[index].data() - text_.data());
    const SyntaxFault fault = key.empty() ? SyntaxFault::other : classify(error.description());
    // What follows a cut is judged by half a text: no verdict.
    if (fault == SyntaxFault::other && cut_) return false;
    ConfigProblem problem{.file = file_, .line = static_cast<unsigned>(index + 1), .key = key, .message = {}};
    if (fault == SyntaxFault::set_twice) {
      const unsigned first = earlier_line(std::string_view(text_).substr(0, begin), key);
      problem.message = first == 0
                            ? "is set twice in one file"
                            : fmt::format("is set twice in one file; the first time is in line {}", first);
    } else if (fault == SyntaxFault::integer_too_large) {
      problem.message = "the number does not fit into 64 bits";
    } else {
      problem.message = one_line(error.description());
    }
    document_.problems.push_back(std::move(problem));
    if (fault == SyntaxFault::other) {
      cut_ = true;
      text_.resize(begin);
      return true;
    }
    // A section that stands twice loses its header only if it is alone in its line, which it is by the
    // grammar; the keys below it would then belong to the section above. So the reading ends there as well.
    if (lines[index].find('=') == std::string_view::npos) {
      text_.resize(begin);
      return true;
    }
    const std::size_t length = lines[index].size();
    text_.replace(begin, length, length, ' ');
    return true;
  }

  std::string text_;
  const std::string& file_;
  ConfigDocument document_;
  bool cut_ = false;
};

}  // namespace

ConfigDocument parse_document(std::string_view text, const std::string& file) {
  return Repair(text, file).run();
}

}  // namespace penstock
