// SPDX-License-Identifier: Apache-2.0
// What the files of the fake CUDA driver share.
#pragma once

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/driver.hpp"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace penstock::fake {

inline Driver& driver() { return Driver::instance(); }
// The name of a call is its symbol, without the suffix of a version.
inline CudaResult enter(const char* name, Needs needs) { return driver().enter(name, needs); }

}  // namespace penstock::fake
