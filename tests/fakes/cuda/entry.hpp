// SPDX-License-Identifier: Apache-2.0
// What the files of the fake CUDA driver share.
#pragma once

#include "dataplane/device/cuda/cuda_abi.h"
#include "tests/fakes/engine/driver.hpp"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace penstock::fake {

inline Driver& driver() { return Driver::instance(); }
// An exported function. The name of a call is its symbol, without the suffix of a version.
template <class Body>
CudaResult answer(const char* name, Needs needs, const Body& body) {
  return driver().call(name, needs, body);
}

}  // namespace penstock::fake
