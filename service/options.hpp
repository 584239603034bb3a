// SPDX-License-Identifier: Apache-2.0
// The command line of penstockd.
#pragma once

#include <string>

#include "dataplane/base/failure.hpp"
#include "service/config/load.hpp"

namespace penstock {

struct Options {
  ConfigLocation config;
  enum class Do : std::uint8_t { serve, check_config, print_config, version, help } what = Do::serve;
};

Outcome<Options> parse_options(int count, const char* const* words);
const char* options_help();

}  // namespace penstock
