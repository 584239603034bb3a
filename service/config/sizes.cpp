// SPDX-License-Identifier: Apache-2.0
// Sizes in bytes: strings with IEC units, or bare numbers.
#include <fmt/format.h>

#include <bit>

#include "service/config/values.hpp"

namespace penstock {
namespace {

Outcome<std::uint64_t> bytes_of(const ConfigValue& from) {
  if (const std::string* text = std::get_if<std::string>(&from)) return parse_bytes(*text);
  const std::int64_t* number = std::get_if<std::int64_t>(&from);
  if (number == nullptr)
    return fail(FailureKind::invalid_argument, fmt::format("found {}, which is no size", kind_of(from)));
  if (*number < 0) return fail(FailureKind::invalid_argument, fmt::format("{} is negative", *number));
  return static_cast<std::uint64_t>(*number);
}

}  // namespace

std::string SizeKind::allowed() const {
  const std::string range = fmt::format("a size from \"{}\" to \"{}\"", exact_bytes(min), exact_bytes(max));
  return zero.empty() ? range : fmt::format("{}, or 0 ({})", range, zero);
}

std::string SizeKind::print(std::uint64_t value) const { return toml_string(exact_bytes(value)); }

std::string SizeKind::assign(const ConfigValue& from, std::uint64_t& to) const {
  const Outcome<std::uint64_t> parsed = bytes_of(from);
  if (!parsed) return fmt::format("{}; this key takes {}", parsed.error().message, allowed());
  const bool meant_zero = *parsed == 0 && !zero.empty();
  if (!meant_zero && (*parsed < min || *parsed > max))
    return fmt::format("{} bytes are out of range: wants {}", *parsed, allowed());
  to = *parsed;
  return {};
}

std::string AutoSizeKind::allowed() const {
  return fmt::format("\"auto\" or {}{}", size.allowed(), power_of_two ? ", a power of two" : "");
}

std::string AutoSizeKind::print(const std::optional<std::uint64_t>& value) const {
  return value ? size.print(*value) : toml_string("auto");
}

std::string AutoSizeKind::assign(const ConfigValue& from, std::optional<std::uint64_t>& to) const {
  if (const std::string* text = std::get_if<std::string>(&from); text != nullptr && *text == "auto") {
    to.reset();
    return {};
  }
  std::uint64_t value = 0;
  std::string problem = size.assign(from, value);
  if (!problem.empty()) return problem + "; or \"auto\"";
  if (power_of_two && !std::has_single_bit(value))
    return fmt::format("{} bytes are no power of two: wants {}", value, allowed());
  to = value;
  return {};
}

}  // namespace penstock
