// SPDX-License-Identifier: Apache-2.0
// Loaded device code. Any image will do: what its kernels would do is known by their names.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tests/fakes/fake_kernels.hpp"

namespace penstock::fake {

class Modules {
 public:
  static Modules& instance();

  CudaResult load(const void* image, const void** module);
  CudaResult unload(const void* module);
  CudaResult function(const void* module, const char* name, const void** function);
  // Dies of a function that is unknown, or whose module was unloaded.
  const FakeKernel& kernel(const void* function, const char* call);

 private:
  struct Function {
    const FakeKernel* kernel = nullptr;
    const void* module = nullptr;
  };
  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<char>> modules_;
  std::map<const void*, std::unique_ptr<Function>>
      functions_;  // Never freed, as their late users must be found.
};

}  // namespace penstock::fake
