// SPDX-License-Identifier: Apache-2.0
// Numbers for made-up checkpoints: the same for the same seed on every machine, and all of them finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/core/dtype.hpp"

namespace penstock {

// Fills `out` with the bytes [at, at + out.size()) of tensor number `tensor`. Floats lie between -2 and 2 (their
// exponent's highest bit is 0, which excludes infinities and NaN), booleans are 0 or 1, integers below 256.
void fill_content(std::uint64_t seed, std::uint64_t tensor, Dtype dtype, std::uint64_t at,
                  std::span<std::byte> out);

}  // namespace penstock
