// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/quote.hpp"

#include <cstdint>
#include <iterator>

#include <fmt/format.h>

namespace penstock {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no well-formed UTF-8 here.
};

// The first character, by the table of well-formed sequences (Unicode 15, table 3-7).
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xffu >> (bytes + 1));
  for (std::size_t index = 1; index < bytes; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(index) & 0x3fu);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

bool is_harmless(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == '"' || code == '\\') return false;
  // Marks, line separators and overrides of the writing direction.
  return !(code >= 0x200b && code <= 0x200f) && !(code >= 0x2028 && code <= 0x202e) &&
         !(code >= 0x2066 && code <= 0x2069) && code != 0xfeff;
}

}  // namespace

std::string quote(std::string_view text, std::size_t bytes_max) {
  std::string out = "\"";
  std::size_t at = 0;
  while (at < text.size()) {
    const Character character = first_character(text.substr(at));
    const std::size_t step = character.bytes == 0 ? 1 : character.bytes;
    if (at + step > bytes_max) break;
    if (character.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(text[at]));
    } else if (is_harmless(character.code)) {
      out += text.substr(at, step);
    } else if (character.code == '"' || character.code == '\\') {
      out += '\\';
      out += static_cast<char>(character.code);
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", character.code);
    }
    at += step;
  }
  return out + (at < text.size() ? "...\"" : "\"");
}

}  // namespace penstock
