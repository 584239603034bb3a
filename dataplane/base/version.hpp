// SPDX-License-Identifier: Apache-2.0
// The version of the whole project, as programs report it. The same as in the root CMakeLists.txt.
#pragma once

#include <string_view>

namespace penstock {

inline constexpr std::string_view project_version = "0.1.0";

}  // namespace penstock
