// SPDX-License-Identifier: Apache-2.0
// What the files of the fake HIP runtime share. The engine speaks CUDA's codes; HIP's are the same numbers, but fewer.
#pragma once

#include "dataplane/device/hip/hip_abi.h"
#include "tests/fakes/engine/driver.hpp"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace penstock::fake {

inline Driver& driver() { return Driver::instance(); }
// An exported function. The name of a call is its symbol. What it answers is the thread's last error; from 7.0 on only where
// that is one, and the last one stays until it is asked for.
template <class Body>
HipResult answer(const char* name, Needs needs, const Body& body) {
  const HipResult result = driver().call(name, needs, body);
  const bool failed = result != hip_success && result != hip_error_not_ready;
  if (failed || !settings().quirks.keeps_last_failure) this_thread().last_error = result;
  return result;
}

// Memory calls: nearly everything is an invalid value here.
inline HipResult coarse(CudaResult code) {
  switch (code) {
    case cuda_error_invalid_device:
    case cuda_error_not_permitted:
    case cuda_error_illegal_state: return hip_error_invalid_value;
    default: return code;
  }
}
inline std::uint64_t number(HipAddress address) { return reinterpret_cast<std::uint64_t>(address); }
inline HipAddress address_of(std::uint64_t address) { return reinterpret_cast<HipAddress>(address); }

}  // namespace penstock::fake
