// SPDX-License-Identifier: Apache-2.0
// Log lines to standard error: as text for people, or one JSON object a line.
#pragma once

#include "service/config/config.hpp"

namespace penstock {

void start_log(const LogConfig& config);
void set_log_level(LogLevel level);

}  // namespace penstock
