// SPDX-License-Identifier: Apache-2.0
#include "exporters/label_text.hpp"

#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "dataplane/base/sha256.hpp"

namespace penstock {
namespace {

constexpr std::size_t digest_bytes = 6;
constexpr std::size_t tail_bytes = 1 + 2 * digest_bytes;

}  // namespace

std::size_t utf8_length(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const auto byte = [&](std::size_t at) -> unsigned {
    return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
  };
  const auto continues = [&](std::size_t at) { return (byte(at) & 0xc0) == 0x80; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if ((first & 0xf0) == 0xe0) {
    if (!continues(1) || !continues(2)) return 0;
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    const bool overlong = first == 0xf0 && second < 0x90, beyond = first == 0xf4 && second >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

std::string label_text(std::string_view bytes) {
  std::string out;
  std::size_t cut = 0;  // Where a tail would still fit.
  std::string_view rest = bytes;
  while (!rest.empty() && out.size() <= label_bytes_max) {
    const std::size_t length = rest.front() == '%' ? 0 : utf8_length(rest);
    if (length == 0) {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(rest.front())));
      rest.remove_prefix(1);
    } else {
      out += rest.substr(0, length);
      rest.remove_prefix(length);
    }
    if (out.size() <= label_bytes_max - tail_bytes) cut = out.size();
  }
  if (out.size() <= label_bytes_max) return out;
  out.resize(cut);
  const Sha256Digest digest = sha256(std::as_bytes(std::span(bytes)));
  return out + "~" + to_hex(std::span(digest).first(digest_bytes));
}

}  // namespace penstock
