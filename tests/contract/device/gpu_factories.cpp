// SPDX-License-Identifier: Apache-2.0
// A GPU whose writer lives in this process, over a fake driver; with PENSTOCK_FAKE_NO_BINARY=1 the host converts.
#include <cctype>
#include <utility>

#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "tests/contract/device/gpu_under_test.hpp"

namespace penstock {
namespace {

std::unique_ptr<DeviceUnderTest> make(const ContractOptions& options, HeadroomSource& headroom) {
  const std::shared_ptr<GpuDriver> gpu = gpu_under_test();
  const std::shared_ptr<HeadroomSource> not_owned(std::shared_ptr<void>(), &headroom);
  auto owner = GpuFrameOwner::open(
      gpu, {.frame_bytes = options.frame_bytes, .capacity_bytes = options.capacity_bytes}, not_owned);
  auto writer = GpuFrameWriter::open(gpu, {});
  if (!owner || !writer) return nullptr;
  auto device = GpuDevice::open(std::move(*owner), std::move(*writer));
  if (!device) return nullptr;
  auto staging = Mapping::anonymous(staging_bytes);
  CHECK(staging.has_value());
  return std::make_unique<GpuUnderTest>(gpu, std::move(*device), options.frame_bytes, *std::move(staging),
                                        -1);
}

}  // namespace

std::vector<DeviceFactory> device_factories() {
  std::string name = wanted_gpu();
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return {{name, 2 * mib, make}};
}

}  // namespace penstock
