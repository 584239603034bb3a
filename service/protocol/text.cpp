// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/text.hpp"

#include <cstdint>

namespace penstock {
namespace {

// Length of the character at the start of `text`, or 0 if there is none that is well-formed.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length;
  std::uint32_t value, least;
  if ((first & 0xe0) == 0xc0) {
    length = 2, value = first & 0x1fu, least = 0x80;
  } else if ((first & 0xf0) == 0xe0) {
    length = 3, value = first & 0x0fu, least = 0x800;
  } else if ((first & 0xf8) == 0xf0) {
    length = 4, value = first & 0x07u, least = 0x10000;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3fu);
  }
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  return value >= least && value <= 0x10ffff && !surrogate ? length : 0;
}

// Of C0 and C1: either could steer a terminal. REQUIRES: one well-formed character.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    if (length == 0 || is_control(text.substr(0, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string to_line(std::string_view text, std::size_t bytes_max) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const bool allowed = length != 0 && !is_control(text.substr(0, length));
    const std::string_view next = allowed ? text.substr(0, length) : "?";
    if (line.size() + next.size() > bytes_max) break;
    line += next;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

}  // namespace penstock
