// SPDX-License-Identifier: Apache-2.0
// Modules and launches. Signatures: hip_abi.h.
#include "tests/fakes/engine/modules.hpp"
#include "tests/fakes/engine/work.hpp"
#include "tests/fakes/hip/entry.hpp"

namespace penstock::fake {

FAKE_EXPORT HipResult hipModuleLoadData(HipModule* module, const void* image) {
  return answer("hipModuleLoadData", Needs::context, [&]() -> HipResult {
    if (module == nullptr) return hip_error_invalid_value;
    const void* made = nullptr;
    const HipResult result = Modules::instance().load(image, &made);
    if (result == hip_success) *module = static_cast<HipModule>(const_cast<void*>(made));
    return result;
  });
}

FAKE_EXPORT HipResult hipModuleUnload(HipModule module) {
  return answer("hipModuleUnload", Needs::context,
                [&]() -> HipResult { return Modules::instance().unload(module); });
}

FAKE_EXPORT HipResult hipModuleGetFunction(HipFunction* function, HipModule module, const char* name) {
  return answer("hipModuleGetFunction", Needs::context, [&]() -> HipResult {
    if (function == nullptr) return hip_error_invalid_value;
    const void* made = nullptr;
    const HipResult result = Modules::instance().function(module, name, &made);
    if (result == hip_success) *function = static_cast<HipFunction>(const_cast<void*>(made));
    return result;
  });
}

FAKE_EXPORT HipResult hipModuleLaunchKernel(HipFunction function, unsigned grid_x, unsigned grid_y,
                                            unsigned grid_z, unsigned block_x, unsigned block_y,
                                            unsigned block_z, unsigned /*shared_bytes*/, HipStream stream,
                                            void** parameters, void** extra) {
  return answer("hipModuleLaunchKernel", Needs::context, [&]() -> HipResult {
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || extra != nullptr)
      return hip_error_invalid_value;
    Context& context = driver().current();
    return launch(context, Modules::instance().kernel(function, "hipModuleLaunchKernel"), grid_x, block_x,
                  parameters, context.stream(reinterpret_cast<CudaStream>(stream), "hipModuleLaunchKernel"));
  });
}

}  // namespace penstock::fake
