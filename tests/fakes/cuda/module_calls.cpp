// SPDX-License-Identifier: Apache-2.0
// Modules and launches. Signatures: cuda_abi.h.
#include "tests/fakes/cuda/entry.hpp"
#include "tests/fakes/engine/modules.hpp"
#include "tests/fakes/engine/work.hpp"

namespace penstock::fake {

FAKE_EXPORT CudaResult cuModuleLoadData(CudaModule* module, const void* image) {
  return answer("cuModuleLoadData", Needs::context, [&]() -> CudaResult {
    if (module == nullptr) return cuda_error_invalid_value;
    const void* made = nullptr;
    const CudaResult result = Modules::instance().load(image, &made);
    if (result == cuda_success) *module = static_cast<CudaModule>(const_cast<void*>(made));
    return result;
  });
}

FAKE_EXPORT CudaResult cuModuleUnload(CudaModule module) {
  return answer("cuModuleUnload", Needs::context,
                [&]() -> CudaResult { return Modules::instance().unload(module); });
}

FAKE_EXPORT CudaResult cuModuleGetFunction(CudaFunction* function, CudaModule module, const char* name) {
  return answer("cuModuleGetFunction", Needs::context, [&]() -> CudaResult {
    if (function == nullptr) return cuda_error_invalid_value;
    const void* made = nullptr;
    const CudaResult result = Modules::instance().function(module, name, &made);
    if (result == cuda_success) *function = static_cast<CudaFunction>(const_cast<void*>(made));
    return result;
  });
}

FAKE_EXPORT CudaResult cuLaunchKernel(CudaFunction function, unsigned grid_x, unsigned grid_y,
                                      unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                      unsigned /*shared_bytes*/, CudaStream stream, void** parameters,
                                      void** extra) {
  return answer("cuLaunchKernel", Needs::context, [&]() -> CudaResult {
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || extra != nullptr)
      return cuda_error_invalid_value;
    Context& context = driver().current();
    return launch(context, Modules::instance().kernel(function, "cuLaunchKernel"), grid_x, block_x,
                  parameters, context.stream(stream, "cuLaunchKernel"));
  });
}

}  // namespace penstock::fake
