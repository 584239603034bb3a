// SPDX-License-Identifier: Apache-2.0
#include "dataplane/base/units.hpp"

#include <charconv>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include "dataplane/base/quote.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t value_max = INT64_MAX;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr Unit byte_units[] = {{"", 1},      {"B", 1},     {"KiB", kib},       {"MiB", mib},
                               {"GiB", gib}, {"TiB", tib}, {"PiB", 1024 * tib}};
constexpr Unit time_units[] = {{"ns", 1},
                               {"us", 1'000},
                               {"ms", 1'000'000},
                               {"s", 1'000'000'000},
                               {"min", 60'000'000'000},
                               {"h", 3'600'000'000'000}};

constexpr std::string_view allowed_bytes =
    "allowed are whole numbers with B, KiB, MiB, GiB, TiB or PiB, or a bare number of bytes, from 0 to "
    "9223372036854775807 bytes (8 EiB - 1)";
constexpr std::string_view allowed_times =
    "allowed are whole numbers with ns, us, ms, s, min or h, from 0 to 9223372036854775807 ns (292 years)";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Outcome<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units,
                                      std::string_view allowed) {
  const auto refuse = [&](std::string_view why) {
    return fail(FailureKind::invalid_argument, fmt::format("{} {}: {}", quote(text), why, allowed));
  };
  const std::string_view body = trimmed(text);
  if (body.empty()) return refuse("is empty");
  if (body.front() == '-') return refuse("is negative");
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc::result_out_of_range) return refuse("is too large");
  if (error != std::errc{}) return refuse("does not start with a digit");
  const std::string_view rest = body.substr(static_cast<std::size_t>(end - body.data()));
  if (rest.starts_with('.') || rest.starts_with(',')) return refuse("has a fraction");
  const std::string_view name = trimmed(rest);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    if (number > value_max / unit.factor) return refuse("is too large");
    return number * unit.factor;
  }
  return refuse(name.empty() ? "has no unit" : fmt::format("has the unknown unit {}", quote(name)));
}

}  // namespace

Outcome<std::uint64_t> parse_bytes(std::string_view text) {
  return parse_quantity(text, byte_units, allowed_bytes);
}

Outcome<std::uint64_t> parse_duration(std::string_view text) {
  if (trimmed(text) == "0") return 0;
  return parse_quantity(text, time_units, allowed_times);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < kib) return fmt::format("{} B", bytes);
  constexpr std::string_view names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes) / 1024;
  // 1023.95 and up would be written as 1024.0.
  for (; value >= 1023.95 && unit + 1 < std::size(names); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, names[unit]);
}

}  // namespace penstock
