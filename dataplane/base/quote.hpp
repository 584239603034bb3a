// SPDX-License-Identifier: Apache-2.0
// Foreign text inside our messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

// `text` in double quotes, always valid UTF-8 on one line: control characters (also C1 and the ones that turn the
// direction of writing), quotes, backslashes and bytes that are no UTF-8 are escaped, so that a name from a file can
// neither forge a log line nor steer a terminal. Longer text than `bytes_max` is cut at a character and ends in "...".
std::string quote(std::string_view text, std::size_t bytes_max = 160);

}  // namespace penstock
