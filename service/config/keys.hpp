// SPDX-License-Identifier: Apache-2.0
// The one table of all keys: their names, what they allow, how they are set and printed.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "service/config/config.hpp"
#include "service/config/document.hpp"

namespace penstock {

struct ConfigKey {
  std::string path;  // "device.host.capacity"
  std::string allowed;
  bool at_once = false;                                            // A running service may take a new value.
  std::function<std::string(Config&, const ConfigValue&)> assign;  // Empty, or what is wrong.
  std::function<std::string(const Config&)> print;                 // A TOML value.

  std::string_view section() const { return std::string_view(path).substr(0, path.rfind('.')); }
  std::string_view name() const { return std::string_view(path).substr(path.rfind('.') + 1); }
};

// In the order in which they are printed; keys of one section stand together.
std::span<const ConfigKey> config_keys();
const ConfigKey* find_key(std::string_view path);
// "device", "device.host": what keys stand below.
bool is_section(std::string_view path);

}  // namespace penstock
