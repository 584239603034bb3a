// SPDX-License-Identifier: Apache-2.0
// Any text either gives a configuration that prints and parses back to itself, or problems of one line each.
// A form feed, which TOML doesn't know, splits the input into a file and its drop-ins.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dataplane/base/check.hpp"
#include "service/config/load.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<ConfigText> texts;
  while (texts.size() < 4) {
    const std::size_t end = texts.size() == 3 ? std::string_view::npos : input.find('\f');
    texts.push_back({.file = "file", .text = std::string(input.substr(0, end))});
    if (end == std::string_view::npos) break;
    input.remove_prefix(end + 1);
  }
  const tl::expected<Config, ConfigProblems> config = parse_config(texts);
  if (!config) {
    CHECK(!config.error().empty());
    for (const ConfigProblem& problem : config.error()) {
      const std::string text = to_text(problem);
      CHECK(!problem.message.empty() && text.find('\n') == std::string::npos && text.size() < 8192);
    }
    return 0;
  }
  const std::vector<ConfigText> printed = {{.file = "printed", .text = print_config(*config)}};
  const tl::expected<Config, ConfigProblems> again = parse_config(printed);
  CHECK(again && *again == *config);
  return 0;
}
