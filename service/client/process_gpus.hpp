// SPDX-License-Identifier: Apache-2.0
// ProcessGpus: GPUs as this process reaches them: through the drivers that it has loaded. Never loads one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dataplane/base/failure.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "service/client/gpu_mapper.hpp"

namespace penstock {

// What a user calls a GPU: "cuda" or "hip" alone, or an id.
struct GpuName {
  GpuVendor vendor = GpuVendor::cuda;
  std::string id;  // Empty: whichever.
};
std::optional<GpuName> gpu_name(std::string_view text);

// A GPU that the service does not share, in a context of the program's.
struct PlainGpu {
  ProcessGpu gpu;
  std::shared_ptr<DriverContext> context;
};

class ProcessGpus {
 public:
  // By the service's id. `unsupported` when this process has no driver for it, or does not see the GPU.
  Outcome<ProcessGpu> find(GpuVendor vendor, const std::string& id);
  // A GPU that is no device of the service's; without an id the calling thread's current one. Whether the driver claims to
  // share its memory is of no account: the service has tried. `unsupported` as above, or without a context.
  Outcome<PlainGpu> find_plain(const GpuName& name);

 private:
  struct Opened {
    std::vector<std::shared_ptr<GpuDriver>> gpus;
    std::shared_ptr<ProgramStreams> streams;
  };
  Outcome<Opened> open(GpuVendor vendor, const std::string& id) const;

  std::shared_ptr<ProgramContexts> contexts_of(const std::shared_ptr<GpuDriver>& gpu);

  std::map<std::string, ProcessGpu> found_;
  std::map<std::string, std::shared_ptr<ProgramContexts>> contexts_;  // One for all that is on a GPU.
};

}  // namespace penstock
