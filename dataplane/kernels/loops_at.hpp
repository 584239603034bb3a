// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dataplane/kernels/convert_loops.hpp"
#include "dataplane/kernels/vector_level.hpp"

namespace penstock {

// REQUIRES: vector_levels() has the level.
const ConvertLoops& loops_at(VectorLevel level);

}  // namespace penstock
