// SPDX-License-Identifier: Apache-2.0
// A GPU whose context is held by penstock-writer, as the service has it, over a fake driver that both processes load.
#include <cctype>
#include <utility>

#include "dataplane/base/memfd.hpp"
#include "dataplane/writer/remote_filler.hpp"
#include "tests/contract/device/gpu_under_test.hpp"
#include "tests/support/remote_host_device.hpp"

namespace penstock {
namespace {

std::unique_ptr<DeviceUnderTest> make(const ContractOptions& options, HeadroomSource& headroom) {
  const std::shared_ptr<GpuDriver> gpu = gpu_under_test();
  const std::shared_ptr<HeadroomSource> not_owned(std::shared_ptr<void>(), &headroom);
  const GpuIdentity& identity = gpu->description().identity;
  auto program = WriterProgram::open(test::program_path("penstock-writer"),
                                     {std::string(gpu_vendor_name(identity.vendor)), identity.id});
  auto owner = GpuFrameOwner::open(
      gpu, {.frame_bytes = options.frame_bytes, .capacity_bytes = options.capacity_bytes}, not_owned);
  if (!program || !owner) return nullptr;
  auto filler = RemoteFiller::open(*std::move(program), {});
  if (!filler) return nullptr;
  auto device = GpuDevice::open(std::move(*owner), std::move(*filler));
  if (!device) return nullptr;
  auto file = create_memfd("staging", staging_bytes);
  CHECK(file.has_value());
  auto staging = Mapping::shared(file->get(), staging_bytes, Access::read_write);
  CHECK(staging.has_value());
  return std::make_unique<GpuUnderTest>(gpu, std::move(*device), options.frame_bytes, *std::move(staging),
                                        file->get());
}

}  // namespace

std::vector<DeviceFactory> device_factories() {
  std::string name = wanted_gpu() + "FilledByAWriter";
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return {{name, 2 * mib, make}};
}

}  // namespace penstock
