// SPDX-License-Identifier: Apache-2.0
// Small texts of /proc and /sys, and the numbers in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/result.hpp"

namespace penstock {

// At most 64 KiB; what is longer is cut. The path is built from a root and from names that the kernel gave.
Result<std::string> read_kernel_text(const std::string& path);
// A whole file that is one decimal number.
Result<std::uint64_t> read_kernel_number(const std::string& path);
// The bytes of "  1234 KiB", " 5678 kB", "12 MiB" or "9": nothing when it is no such thing.
std::optional<std::uint64_t> parse_kernel_bytes(std::string_view text);
// What follows `key` at the start of a line, up to its end; nothing when no line starts so.
std::optional<std::string_view> value_after(std::string_view text, std::string_view key);

}  // namespace penstock
