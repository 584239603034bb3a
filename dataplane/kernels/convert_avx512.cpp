// SPDX-License-Identifier: Apache-2.0
// The build sets the flags where the target is x86-64.
#if defined(__AVX512DQ__)
#include "dataplane/kernels/loop_bodies.hpp"

namespace penstock {
const ConvertLoops* avx512_loops() { return &compiled_loops; }
}  // namespace penstock
#else
#include "dataplane/kernels/convert_loops.hpp"

namespace penstock {
const ConvertLoops* avx512_loops() { return nullptr; }
}  // namespace penstock
#endif
