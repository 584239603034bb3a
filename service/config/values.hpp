// SPDX-License-Identifier: Apache-2.0
// The kinds of values that keys take. Each kind is three functions: what it allows (for messages), text of a
// value, and assignment from TOML, which returns what is wrong or an empty string.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dataplane/base/clock.hpp"
#include "service/config/config.hpp"
#include "service/config/document.hpp"

namespace penstock {

// A string in TOML's quotes and escapes.
std::string toml_string(std::string_view text);
// The largest unit in which the value is whole: "32MiB", "1s".
std::string exact_bytes(std::uint64_t bytes);
std::string exact_duration(Nanoseconds duration);
// "an integer", "a string", ...
std::string_view kind_of(const ConfigValue& value);

struct BoolKind {
  std::string allowed() const;
  std::string print(bool value) const;
  std::string assign(const ConfigValue& from, bool& to) const;
};

// An absolute path of at most `bytes_max` bytes.
struct PathKind {
  std::size_t bytes_max;
  std::string allowed() const;
  std::string print(const std::string& value) const;
  std::string assign(const ConfigValue& from, std::string& to) const;
};

// The name of a group, or nothing.
struct GroupKind {
  std::string allowed() const;
  std::string print(const std::string& value) const;
  std::string assign(const ConfigValue& from, std::string& to) const;
};

struct DurationKind {
  Nanoseconds min, max;
  std::string allowed() const;
  std::string print(Nanoseconds value) const;
  std::string assign(const ConfigValue& from, Nanoseconds& to) const;
};

// Bytes. With `zero`, 0 is allowed too and means what the text says.
struct SizeKind {
  std::uint64_t min, max;
  std::string_view zero = {};
  std::string allowed() const;
  std::string print(std::uint64_t value) const;
  std::string assign(const ConfigValue& from, std::uint64_t& to) const;
};

// A size or "auto".
struct AutoSizeKind {
  SizeKind size;
  bool power_of_two = false;
  std::string allowed() const;
  std::string print(const std::optional<std::uint64_t>& value) const;
  std::string assign(const ConfigValue& from, std::optional<std::uint64_t>& to) const;
};

// "address:port", "[address]:port" or "".
struct ListenKind {
  std::string allowed() const;
  std::string print(const std::optional<ListenAddress>& value) const;
  std::string assign(const ConfigValue& from, std::optional<ListenAddress>& to) const;
};

namespace detail {
std::string list_names(std::span<const std::string_view> names);
// Index into `names`, or nullopt with `problem` set.
std::optional<std::size_t> find_name(const ConfigValue& from, std::span<const std::string_view> names,
                                     std::string& problem);
}  // namespace detail

// One of a list of words. `names[i]` is the enumerator i.
template <class Enum>
struct ChoiceKind {
  std::span<const std::string_view> names;
  std::string allowed() const { return detail::list_names(names); }
  std::string print(Enum value) const { return toml_string(names[static_cast<std::size_t>(value)]); }
  std::string assign(const ConfigValue& from, Enum& to) const {
    std::string problem;
    if (const auto index = detail::find_name(from, names, problem)) to = static_cast<Enum>(*index);
    return problem;
  }
};

// "auto", "on", "off"; TOML's own true and false too.
struct UseKind {
  std::string allowed() const;
  std::string print(DeviceUse value) const;
  std::string assign(const ConfigValue& from, DeviceUse& to) const;
};

}  // namespace penstock
