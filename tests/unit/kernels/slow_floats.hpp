// SPDX-License-Identifier: Apache-2.0
// Float formats by their definition, in exact arithmetic on doubles. Slow, and independent of the code under test.
#pragma once

#include <cstdint>

#include "dataplane/core/dtype.hpp"

namespace penstock::test {

// The number that a code of the format stands for; f32 has the code of its bits.
double slow_decode(Dtype dtype, std::uint32_t code);
// The code of the number nearest to `value`, ties to even, with the overflow rules of convert.hpp.
std::uint32_t slow_encode(Dtype dtype, double value);
// The number of codes of a format of at most 16 bits.
std::uint32_t code_count(Dtype dtype);

}  // namespace penstock::test
