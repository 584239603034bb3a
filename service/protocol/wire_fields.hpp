// SPDX-License-Identifier: Apache-2.0
// Small steps that encoders and decoders share. Internal to this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dataplane/base/result.hpp"
#include "service/protocol/text.hpp"

namespace penstock::wire {

inline Error broken(const char* rule) { return Error{Errc::protocol, 0, rule}; }

// A copy of the struct at `offset`. REQUIRES: it lies inside.
template <class Wire>
Wire copy_at(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::is_trivially_copyable_v<Wire>);
  Wire wire;
  std::memcpy(&wire, bytes.subspan(offset).first(sizeof(Wire)).data(), sizeof(Wire));
  return wire;
}

template <class Wire>
void append(std::vector<std::byte>& out, const Wire& wire) {
  const auto bytes = std::as_bytes(std::span(&wire, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// The text of a field of Size bytes: a line, zeros behind it.
template <std::size_t Size>
Result<std::string> text_of(const char (&field)[Size], std::uint32_t bytes) {
  if (bytes > Size) return broken("a text is longer than its field");
  if (std::any_of(field + bytes, field + Size, [](char c) { return c != 0; })) {
    return broken("a text has bytes behind its end");
  }
  const std::string_view text(field, bytes);
  if (!is_line(text)) return broken("a text is not one line of UTF-8");
  return std::string(text);
}

// REQUIRES: the field is zero. Returns the length.
template <std::size_t Size>
std::uint32_t put_text(char (&field)[Size], std::string_view text) {
  const std::string line = to_line(text, Size);
  std::memcpy(field, line.data(), line.size());
  return static_cast<std::uint32_t>(line.size());
}

// A number that names an enumerator; `last` is the greatest one.
template <class Enum>
Result<Enum> enum_of(std::uint32_t number, Enum last, const char* rule) {
  if (number > static_cast<std::uint32_t>(last)) return broken(rule);
  return static_cast<Enum>(number);
}

}  // namespace penstock::wire
