// SPDX-License-Identifier: Apache-2.0
// Capture: a stream of the fake CUDA driver records a graph instead of running, from here until end().
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "dataplane/device/cuda/cuda_abi.h"

namespace penstock {

class Capture {
 public:
  explicit Capture(void* stream) : stream_(stream) {
    using Begin = CudaResult (*)(void*, int);
    EXPECT_EQ(call<Begin>("cuStreamBeginCapture_v2")(stream_, 0), cuda_success);
  }
  ~Capture() {
    if (lasts_) end();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // A test fails here when anything spoilt it meanwhile.
  void end() {
    using End = CudaResult (*)(void*, void**);
    void* graph = nullptr;
    EXPECT_EQ(call<End>("cuStreamEndCapture")(stream_, &graph), cuda_success);
    lasts_ = false;
  }

 private:
  template <typename Function>
  static Function call(const char* symbol) {
    static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<Function>(::dlsym(library, symbol));
  }

  void* const stream_;
  bool lasts_ = true;
};

}  // namespace penstock
