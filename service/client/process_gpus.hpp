// SPDX-License-Identifier: Apache-2.0
// ProcessGpus: the service's GPUs as this process reaches them: through the drivers that it has loaded. Never loads one.
#pragma once

#include <map>
#include <string>

#include "dataplane/base/failure.hpp"
#include "service/client/gpu_mapper.hpp"

namespace penstock {

class ProcessGpus {
 public:
  // By the service's id. `unsupported` when this process has no driver for it, or does not see the GPU.
  Outcome<ProcessGpu> find(GpuVendor vendor, const std::string& id);

 private:
  std::map<std::string, ProcessGpu> found_;
};

}  // namespace penstock
