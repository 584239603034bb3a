// SPDX-License-Identifier: Apache-2.0
// The clients' part of `penstock status` as text.
#pragma once

#include <string>
#include <string_view>

#include "service/cli/context.hpp"

namespace penstock {

// The number as people read it; "-" when it is not there.
std::string bytes_of(const Json& object, const char* key);
// A line a client, then for each that says so, or that the kernel tells of, a line a kind. Empty without clients.
// `strong`, `plain`: what starts and ends a heading.
std::string clients_text(const Json& clients, std::string_view strong, std::string_view plain);

}  // namespace penstock
