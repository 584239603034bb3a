// SPDX-License-Identifier: Apache-2.0
// The version that programs and the service report.
#pragma once

#include <string_view>

namespace penstock {

inline constexpr std::string_view service_version = "0.1.0";

}  // namespace penstock
