// SPDX-License-Identifier: Apache-2.0
// Recognises, by their first bytes, files that are often found under a checkpoint's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/failure.hpp"

namespace penstock {

// What the file is instead of a checkpoint, as the failure to report; nothing when it is no known format.
// Looks at bytes only: no foreign format is parsed, and pickle is never executed.
std::optional<Failure> recognize_foreign_format(std::span<const std::byte> prefix, std::uint64_t file_bytes);

}  // namespace penstock
