// SPDX-License-Identifier: Apache-2.0
#include "dataplane/kernels/loop_bodies.hpp"

namespace penstock {

const ConvertLoops& portable_loops() { return compiled_loops; }

}  // namespace penstock
