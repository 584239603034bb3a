// SPDX-License-Identifier: Apache-2.0
#include "service/config/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "dataplane/base/quote.hpp"

namespace penstock {
namespace {

constexpr std::string_view use_names[] = {"auto", "on", "off"};

std::string wants(std::string_view what, const ConfigValue& found) {
  return fmt::format("wants {}, found {}", what, kind_of(found));
}

struct Scale {
  std::uint64_t factor;
  std::string_view name;
};

// `scales`: from the largest to the smallest, which is 1.
std::string in_largest(std::uint64_t value, std::span<const Scale> scales) {
  const auto fits = [&](const Scale& scale) { return value != 0 && value % scale.factor == 0; };
  const auto found = std::ranges::find_if(scales, fits);
  const Scale& scale = found == scales.end() ? scales.back() : *found;
  return fmt::format("{}{}", value / scale.factor, scale.name);
}

}  // namespace

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string exact_bytes(std::uint64_t bytes) {
  constexpr Scale scales[] = {{tib, "TiB"}, {gib, "GiB"}, {mib, "MiB"}, {kib, "KiB"}, {1, ""}};
  return in_largest(bytes, scales);
}

std::string exact_duration(Nanoseconds duration) {
  constexpr Scale scales[] = {{3'600'000'000'000, "h"}, {60'000'000'000, "min"}, {1'000'000'000, "s"},
                              {1'000'000, "ms"},        {1'000, "us"},           {1, "ns"}};
  return in_largest(static_cast<std::uint64_t>(duration.count()), scales);
}

std::string_view kind_of(const ConfigValue& value) {
  switch (value.index()) {
    case 0: return "true or false";
    case 1: return "a bare number";
    case 2: return "a number with a fraction";
    case 3: return "a string";
    default: return std::get<OtherValue>(value).what;
  }
}

std::string BoolKind::allowed() const { return "true or false"; }
std::string BoolKind::print(bool value) const { return value ? "true" : "false"; }
std::string BoolKind::assign(const ConfigValue& from, bool& to) const {
  const bool* value = std::get_if<bool>(&from);
  if (value == nullptr) return wants("true or false, without quotes", from);
  to = *value;
  return {};
}

std::string PathKind::allowed() const {
  return fmt::format("an absolute path of at most {} bytes", bytes_max);
}
std::string PathKind::print(const std::string& value) const { return toml_string(value); }
std::string PathKind::assign(const ConfigValue& from, std::string& to) const {
  const std::string* value = std::get_if<std::string>(&from);
  if (value == nullptr) return wants(allowed(), from);
  const bool plain = value->find('\0') == std::string::npos;
  if (!value->starts_with('/') || value->size() > bytes_max || !plain)
    return fmt::format("{} is {} bytes long: wants {}", quote(*value), value->size(), allowed());
  to = *value;
  return {};
}

std::string GroupKind::allowed() const { return "the name of a group, or \"\""; }
std::string GroupKind::print(const std::string& value) const { return toml_string(value); }
std::string GroupKind::assign(const ConfigValue& from, std::string& to) const {
  const std::string* value = std::get_if<std::string>(&from);
  if (value == nullptr) return wants(allowed(), from);
  const auto plain = [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && c != ':' && c != ',' && c != 0x7f;
  };
  if (value->size() > 64 || !std::ranges::all_of(*value, plain))
    return fmt::format("{} is no group name: wants {}", quote(*value), allowed());
  to = *value;
  return {};
}

std::string DurationKind::allowed() const {
  return fmt::format("a duration as a string, from \"{}\" to \"{}\"", exact_duration(min),
                     exact_duration(max));
}
std::string DurationKind::print(Nanoseconds value) const { return toml_string(exact_duration(value)); }
std::string DurationKind::assign(const ConfigValue& from, Nanoseconds& to) const {
  const std::string* text = std::get_if<std::string>(&from);
  if (text == nullptr) return wants(allowed(), from);
  const Outcome<std::uint64_t> parsed = parse_duration(*text);
  if (!parsed) return fmt::format("{}; this key takes {}", parsed.error().message, allowed());
  const Nanoseconds value{static_cast<std::int64_t>(*parsed)};
  if (value < min || value > max) return fmt::format("{} is out of range: wants {}", quote(*text), allowed());
  to = value;
  return {};
}

std::string detail::list_names(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", name);
  return out;
}

std::optional<std::size_t> detail::find_name(const ConfigValue& from, std::span<const std::string_view> names,
                                             std::string& problem) {
  const std::string* text = std::get_if<std::string>(&from);
  if (text == nullptr) {
    problem = wants("one of " + list_names(names), from);
    return std::nullopt;
  }
  const auto found = std::ranges::find(names, std::string_view(*text));
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  problem = fmt::format("{} is not known: wants one of {}", quote(*text), list_names(names));
  return std::nullopt;
}

std::string UseKind::allowed() const { return detail::list_names(use_names); }
std::string UseKind::print(DeviceUse value) const {
  return toml_string(use_names[static_cast<std::size_t>(value)]);
}
std::string UseKind::assign(const ConfigValue& from, DeviceUse& to) const {
  if (const bool* value = std::get_if<bool>(&from)) {
    to = *value ? DeviceUse::on : DeviceUse::off;
    return {};
  }
  std::string problem;
  if (const auto index = detail::find_name(from, use_names, problem)) to = static_cast<DeviceUse>(*index);
  return problem;
}

}  // namespace penstock
