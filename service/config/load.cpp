// SPDX-License-Identifier: Apache-2.0
#include "service/config/load.hpp"

#include <fmt/format.h>

#include "service/config/bind.hpp"
#include "service/config/files.hpp"
#include "service/config/keys.hpp"

namespace penstock {
namespace {

// Reads one file into the binder; what stops that becomes a problem.
void add_file(const std::string& path, bool required, ConfigBinder& binder, std::vector<std::string>& files) {
  const Outcome<std::optional<std::string>> text = read_config_file(path);
  if (!text) {
    binder.add_problem({.file = path, .line = 0, .key = {}, .message = text.error().message});
  } else if (*text) {
    files.push_back(path);
    binder.add(path, **text);
  } else if (required) {
    binder.add_problem({.file = path, .line = 0, .key = {}, .message = "no such file"});
  }
}

}  // namespace

std::span<const RemovedKey> removed_keys() { return {}; }

tl::expected<LoadedConfig, ConfigProblems> load_config(const ConfigLocation& location,
                                                       std::span<const RemovedKey> removed) {
  ConfigBinder binder(removed);
  std::vector<std::string> files;
  add_file(location.file, location.required, binder, files);
  const std::string directory = location.file + ".d";
  if (const Outcome<std::vector<std::string>> paths = list_drop_ins(directory)) {
    for (const std::string& path : *paths) add_file(path, true, binder, files);
  } else {
    binder.add_problem({.file = directory, .line = 0, .key = {}, .message = paths.error().message});
  }
  tl::expected<Config, ConfigProblems> config = binder.finish();
  if (!config) return tl::unexpected<ConfigProblems>(std::move(config.error()));
  return LoadedConfig{.config = *std::move(config), .files = std::move(files)};
}

tl::expected<Config, ConfigProblems> parse_config(std::span<const ConfigText> texts,
                                                  std::span<const RemovedKey> removed) {
  ConfigBinder binder(removed);
  for (const ConfigText& text : texts) binder.add(text.file, text.text);
  return binder.finish();
}

std::string print_config(const Config& config) {
  std::string out;
  std::string_view section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section() != section) {
      out += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section());
      section = key.section();
    }
    out += fmt::format("{} = {}\n", key.name(), key.print(config));
  }
  return out;
}

std::vector<ConfigChange> config_changes(const Config& running, const Config& fresh) {
  std::vector<ConfigChange> changes;
  for (const ConfigKey& key : config_keys()) {
    std::string before = key.print(running), after = key.print(fresh);
    if (before == after) continue;
    changes.push_back(
        {.key = key.path, .before = std::move(before), .after = std::move(after), .at_once = key.at_once});
  }
  return changes;
}

}  // namespace penstock
