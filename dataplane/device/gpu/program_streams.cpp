// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/program_streams.hpp"

namespace penstock {

Result<std::unique_ptr<ProgramStreams>> open_program_streams(GpuVendor vendor) {
  return vendor == GpuVendor::cuda ? open_cuda_streams() : open_hip_streams();
}

}  // namespace penstock
