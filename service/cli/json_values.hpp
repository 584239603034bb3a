// SPDX-License-Identifier: Apache-2.0
// Reading an answer's JSON without trusting its shape: a newer service may say more or less.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "service/cli/context.hpp"

namespace penstock {

std::optional<std::uint64_t> find_number(const Json& object, const char* key);
std::string text_of(const Json& object, const char* key);  // "" when it is not there or no text.
const Json& list_of(const Json& object, const char* key);  // Empty when it is not there.
Json object_of(const Json& object, const char* key);

}  // namespace penstock
