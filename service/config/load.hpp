// SPDX-License-Identifier: Apache-2.0
// From files to a Config, or to every problem in them at once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/failure.hpp"
#include "service/config/config.hpp"
#include "service/config/problem.hpp"

namespace penstock {

inline constexpr std::string_view default_config_file = "/etc/penstock/penstock.toml";

struct ConfigLocation {
  std::string file{default_config_file};
  bool required = false;  // Named by the operator: it must exist. The default file may be absent.
};

// A key that an earlier version had.
struct RemovedKey {
  std::string_view key;
  std::string_view replacement;  // What to write instead, as a sentence part: "use reader.bandwidth".
};
std::span<const RemovedKey> removed_keys();

struct LoadedConfig {
  Config config;
  std::vector<std::string> files;  // Those that were read, in the order in which they override.
};
using ConfigProblems = std::vector<ConfigProblem>;  // Never empty where it is returned.

// Reads the file, then FILE.d/*.toml in the order of their names' bytes; each overrides the ones before.
tl::expected<LoadedConfig, ConfigProblems> load_config(const ConfigLocation& location,
                                                       std::span<const RemovedKey> removed = removed_keys());

// The same without a file system: later texts override earlier ones.
struct ConfigText {
  std::string file;  // As problems name it.
  std::string text;
};
tl::expected<Config, ConfigProblems> parse_config(std::span<const ConfigText> texts,
                                                  std::span<const RemovedKey> removed = removed_keys());

// What differs between the running configuration and a freshly loaded one.
struct ConfigChange {
  std::string key;
  std::string before, after;  // TOML values.
  bool at_once = false;       // May be applied while running; otherwise at the next start.
};
std::vector<ConfigChange> config_changes(const Config& running, const Config& fresh);

}  // namespace penstock
