// SPDX-License-Identifier: Apache-2.0
#include "service/config/screen.hpp"

#include <fmt/format.h>

namespace penstock {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// Follows the strings and comments of a text that is correct so far. In one that is not, the library stops where this
// goes astray, or before.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<ScreenFault> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      }
      if (at_ >= line_begin_ + config_line_bytes_max)
        return fault(fmt::format("the line is longer than {} bytes", config_line_bytes_max));
      const unsigned byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t' && c != '\r' && c != '\n') || byte == 0x7f)
        return fault(fmt::format("holds the control character {:#04x}", byte));
      if (byte >= 0x80 && !may_be_beyond_ascii()) {
        return fault(
            "holds a character that is not ASCII, which only comments and lines of the form key = \"string\" "
            "may hold");
      }
      at_ += next(c);
    }
    return std::nullopt;
  }

 private:
  enum class State { plain, comment, basic, literal, basic_lines, literal_lines };

  std::optional<ScreenFault> fault(std::string message) const {
    return ScreenFault{.line = line_, .message = std::move(message)};
  }
  bool may_be_beyond_ascii() const {
    return state_ == State::comment ||
           (string_is_value_ && (state_ == State::basic || state_ == State::literal));
  }
  // Nothing but a key and an equals sign before it. A line inside an array may look the same.
  bool is_value_of_line() const {
    std::string_view before = text_.substr(line_begin_, at_ - line_begin_);
    const auto skip = [&](auto matches) {
      while (!before.empty() && matches(before.front())) before.remove_prefix(1);
    };
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    skip(blank);
    if (before.empty() || before.front() == '=') return false;
    skip([](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.';
    });
    skip(blank);
    if (!before.starts_with('=')) return false;
    before.remove_prefix(1);
    skip(blank);
    return before.empty() && depth_ == 0;
  }
  bool follows(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  // Changes the state; returns how many bytes that took.
  std::size_t next(char c) {
    switch (state_) {
      case State::plain: return open(c);
      case State::comment:
        if (c == '\n') state_ = State::plain;
        return 1;
      case State::basic:
        if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] >= 0x20) return 2;
        [[fallthrough]];
      case State::literal:
        if (c == '\n' || c == (state_ == State::basic ? '"' : '\'')) state_ = State::plain;
        return 1;
      case State::basic_lines:
        if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] >= 0x20) return 2;
        return close_lines("\"\"\"");
      case State::literal_lines: return close_lines("'''");
    }
    return 1;
  }

  std::size_t open(char c) {
    if (c == '#') state_ = State::comment;
    if (follows("\"\"\"") || follows("'''")) {
      state_ = c == '"' ? State::basic_lines : State::literal_lines;
      return 3;
    }
    if (c == '[') ++depth_;
    if (c == ']' && depth_ > 0) --depth_;
    if (c == '"' || c == '\'') string_is_value_ = is_value_of_line();
    if (c == '"') state_ = State::basic;
    if (c == '\'') state_ = State::literal;
    return 1;
  }

  // Up to two quotes may stand directly before the three that end the string.
  std::size_t close_lines(std::string_view end) {
    if (!follows(end)) return 1;
    state_ = State::plain;
    std::size_t length = end.size();
    while (length < end.size() + 2 && at_ + length < text_.size() && text_[at_ + length] == end.front())
      ++length;
    return length;
  }

  std::string_view text_;
  std::size_t at_ = 0, line_begin_ = 0;
  unsigned line_ = 1;
  State state_ = State::plain;
  std::size_t depth_ = 0;  // Of brackets.
  bool string_is_value_ = false;
};

}  // namespace

std::optional<ScreenFault> screen(std::string_view text) {
  if (text.size() > config_bytes_max)
    return ScreenFault{.line = 0, .message = fmt::format("is larger than {} bytes", config_bytes_max)};
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  return Scanner(text).run();
}

}  // namespace penstock
