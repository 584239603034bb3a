// SPDX-License-Identifier: Apache-2.0
// What the build embeds: defined in a file that device_code.cmake writes. For device_code.cpp alone.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "dataplane/kernels/device_code.hpp"

namespace penstock {

struct EmbeddedCode {
  std::string_view architecture;
  std::span<const std::byte> image;
};

std::span<const DeviceCodeEntry> embedded_entries();
std::span<const std::byte> embedded_cuda();
// The last one is empty, so that the list never is.
std::span<const EmbeddedCode> embedded_hip();

}  // namespace penstock
