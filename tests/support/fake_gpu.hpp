// SPDX-License-Identifier: Apache-2.0
// FakeGpu: a fake driver library of this build, loaded into this process, and the GPU it shows. One vendor a process:
// the environment decides on the version, and a library is never unloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/device/gpu/gpu_driver.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "tests/fakes/fake_control.h"

namespace penstock {

class FakeGpu {
 public:
  // Loads it by its full path, so that the loaders find it under its name. Aborts when it is not built.
  static FakeGpu& cuda();
  // "6.2", "7.0", "7.1", ... the version that it plays; .so.6 or .so.7 accordingly.
  static FakeGpu& hip(const std::string& version);

  // As a service would; the states are in the report.
  OpenedVendor open() const;
  // The first GPU. Aborts when there is none.
  std::shared_ptr<GpuDriver> gpu() const;

  // The grammar is in tests/fakes/engine/faults.hpp. An empty plan ends all faults.
  void set_faults(const std::string& plan) const { set_faults_(plan.c_str()); }
  std::uint64_t calls(const char* symbol) const { return call_count_(symbol); }
  std::uint64_t used_bytes() const { return used_bytes_(0); }
  FakeLive live() const {
    FakeLive now{};
    live_(&now);
    return now;
  }

 private:
  FakeGpu(GpuVendor vendor, const std::string& library);

  const GpuVendor vendor_;
  FakeSetFaults set_faults_ = nullptr;
  FakeCallCount call_count_ = nullptr;
  FakeUsedBytes used_bytes_ = nullptr;
  FakeGetLive live_ = nullptr;
};

}  // namespace penstock
