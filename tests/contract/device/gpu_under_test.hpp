// SPDX-License-Identifier: Apache-2.0
// GpuUnderTest: a GPU in the contract suite, wherever its writer lives. PENSTOCK_TEST_GPU is "cuda", or "hip-7.1" and the
// like; on a machine with a GPU "real-cuda" and "real-hip" take the system's driver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/check.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "tests/contract/device/device_under_test.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/gpu_client.hpp"

namespace penstock {

constexpr std::uint64_t staging_bytes = 32 * mib;

inline std::string wanted_gpu() {
  const char* name = std::getenv("PENSTOCK_TEST_GPU");
  return name != nullptr ? name : "cuda";
}

inline std::shared_ptr<GpuDriver> gpu_under_test() {
  const std::string name = wanted_gpu();
  if (name == "cuda") return FakeGpu::cuda().gpu();
  if (name.starts_with("hip-")) return FakeGpu::hip(name.substr(4)).gpu();
  const OpenedVendor real =
      open_vendor(name == "real-hip" ? GpuVendor::hip : GpuVendor::cuda, DriverLoading::load);
  CHECK(!real.gpus.empty());
  return real.gpus.front();
}

class GpuUnderTest final : public DeviceUnderTest {
 public:
  // `staging_fd`: what the memory is a mapping of, for a writer in another process; -1 where it is this process's own.
  GpuUnderTest(std::shared_ptr<GpuDriver> gpu, std::unique_ptr<GpuDevice> device, std::uint64_t frame_bytes,
               Mapping staging, int staging_fd)
      : client_(std::move(gpu), frame_bytes), staging_(std::move(staging)), device_(std::move(device)) {
    CHECK(device_->writer().use_staging(staging_.bytes(), staging_fd).has_value());
  }

  FrameOwner& owner() override { return device_->owner(); }
  FrameWriter& writer() override { return device_->writer(); }
  std::span<const std::byte> stage(std::span<const std::byte> bytes) override {
    if (bytes.size() > staging_.size() - staged_) staged_ = 0;
    const std::span<std::byte> place = staging_.bytes().subspan(staged_, bytes.size());
    std::ranges::copy(bytes, place.begin());
    staged_ += bytes.size();
    return place;
  }
  std::vector<std::byte> read_as_client(int frame_fd) override { return client_.read(frame_fd); }
  bool fill_as_client(int frame_fd, std::byte value) override { return client_.fill(frame_fd, value); }
  bool seals_what_is_shared() const override { return false; }

 private:
  GpuClient client_;
  Mapping staging_;  // Before the device, whose end unregisters it.
  std::uint64_t staged_ = 0;
  std::unique_ptr<GpuDevice> device_;
};

}  // namespace penstock
