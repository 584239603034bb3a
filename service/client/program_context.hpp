// SPDX-License-Identifier: Apache-2.0
// A context for programs that have none: those that use no framework of the GPU's vendor.
#pragma once

#include <string>

#include "dataplane/base/failure.hpp"
#include "dataplane/device/gpu/gpu_identity.hpp"

namespace penstock {

// Loads the vendor's driver where the process has not, and makes the GPU's primary context the calling thread's. The
// context lives as long as the process, as a framework's own does: threads may go on using it. An empty id: the first GPU.
Outcome<void> enter_program_context(GpuVendor vendor, const std::string& id);

}  // namespace penstock
