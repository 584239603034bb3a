// SPDX-License-Identifier: Apache-2.0
#include "service/options.hpp"

#include <string_view>

#include <fmt/format.h>

namespace penstock {

const char* options_help() {
  return "penstockd: the node service that owns model weights for every process that uses the node's GPUs.\n"
         "\n"
         "usage: penstockd [--config FILE] [--check-config | --print-config]\n"
         "\n"
         "  --config FILE    configuration (default /etc/penstock/penstock.toml; without it: built-in "
         "defaults);\n"
         "                   FILE.d/*.toml override it\n"
         "  --check-config   report every problem of the configuration and exit\n"
         "  --print-config   print the effective configuration, defaults included, and exit\n"
         "  --version        print the version and exit\n"
         "  --help           this text\n"
         "\n"
         "signals: TERM and INT stop, HUP reloads what may change, USR1 writes the state into the log\n"
         "exit:    0 stopped as asked, 1 failed while running, 2 bad usage or configuration\n";
}

Outcome<Options> parse_options(int count, const char* const* words) {
  Options options;
  bool configured = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    std::string_view value;
    if (word == "--config" || word.starts_with("--config=")) {
      if (configured)
        return fail(FailureKind::invalid_argument, "--config was given twice",
                    "give one file; FILE.d holds more");
      configured = true;
      if (word == "--config") {
        if (++i == count)
          return fail(FailureKind::invalid_argument, "--config wants a file", "penstockd --help");
        value = words[i];
      } else {
        value = word.substr(std::string_view("--config=").size());
      }
      options.config = {.file = std::string(value), .required = true};
    } else if (word == "--check-config") {
      options.what = Options::Do::check_config;
    } else if (word == "--print-config") {
      options.what = Options::Do::print_config;
    } else if (word == "--version") {
      options.what = Options::Do::version;
    } else if (word == "--help" || word == "-h") {
      options.what = Options::Do::help;
    } else {
      return fail(FailureKind::invalid_argument, fmt::format("unknown argument {}", word),
                  "penstockd --help");
    }
  }
  return options;
}

}  // namespace penstock
