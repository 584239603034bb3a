// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/engine/modules.hpp"

#include <utility>

#include "tests/fakes/engine/die.hpp"
#include "tests/fakes/engine/settings.hpp"

namespace penstock::fake {

Modules& Modules::instance() {
  static Modules* const modules = new Modules;
  return *modules;
}

CudaResult Modules::load(const void* image, const void** module) {
  if (image == nullptr || module == nullptr) return cuda_error_invalid_value;
  if (settings().no_binary) return cuda_error_no_binary_for_gpu;
  auto made = std::make_unique<char>();
  *module = made.get();
  const std::scoped_lock lock(mutex_);
  modules_.emplace(*module, std::move(made));
  return cuda_success;
}

CudaResult Modules::unload(const void* module) {
  const std::scoped_lock lock(mutex_);
  if (modules_.erase(module) == 0) die("unload of an unknown module");
  return cuda_success;
}

CudaResult Modules::function(const void* module, const char* name, const void** function) {
  if (name == nullptr || function == nullptr) return cuda_error_invalid_value;
  const std::scoped_lock lock(mutex_);
  if (!modules_.contains(module)) die("get function: the module is unknown");
  const FakeKernel* kernel = find_kernel(name);
  if (kernel == nullptr) return cuda_error_not_found;
  auto made = std::make_unique<Function>();
  made->kernel = kernel;
  made->module = module;
  *function = made.get();
  functions_.emplace(*function, std::move(made));
  return cuda_success;
}

const FakeKernel& Modules::kernel(const void* function, const char* call) {
  const std::scoped_lock lock(mutex_);
  const auto found = functions_.find(function);
  if (found == functions_.end()) die("%s: the function is unknown", call);
  if (!modules_.contains(found->second->module)) die("%s: the function's module was unloaded", call);
  return *found->second->kernel;
}

}  // namespace penstock::fake
