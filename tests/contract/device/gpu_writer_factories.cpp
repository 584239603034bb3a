// SPDX-License-Identifier: Apache-2.0
// A GPU whose context is held by penstock-writer, as the service has it, over a fake driver that both processes load.
// PENSTOCK_TEST_GPU is "cuda", or "hip-7.1" and the like; "real-cuda" and "real-hip" take the system's driver.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/writer/remote_filler.hpp"
#include "tests/contract/device/device_under_test.hpp"
#include "tests/support/fake_gpu.hpp"
#include "tests/support/gpu_client.hpp"
#include "tests/support/remote_host_device.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t staging_bytes = 32 * mib;

std::string wanted() {
  const char* name = std::getenv("PENSTOCK_TEST_GPU");
  return name != nullptr ? name : "cuda";
}

std::shared_ptr<GpuDriver> driver() {
  const std::string name = wanted();
  if (name == "cuda") return FakeGpu::cuda().gpu();
  if (name.starts_with("hip-")) return FakeGpu::hip(name.substr(4)).gpu();
  const OpenedVendor real =
      open_vendor(name == "real-hip" ? GpuVendor::hip : GpuVendor::cuda, DriverLoading::load);
  CHECK(!real.gpus.empty());
  return real.gpus.front();
}

class RemoteGpuUnderTest final : public DeviceUnderTest {
 public:
  RemoteGpuUnderTest(std::shared_ptr<GpuDriver> gpu, std::unique_ptr<GpuDevice> device,
                     std::uint64_t frame_bytes)
      : client_(std::move(gpu), frame_bytes), device_(std::move(device)) {
    auto file = create_memfd("staging", staging_bytes);
    CHECK(file.has_value());
    auto memory = Mapping::shared(file->get(), staging_bytes, Access::read_write);
    CHECK(memory.has_value());
    staging_ = *std::move(memory);
    CHECK(device_->writer().use_staging(staging_.bytes(), file->get()).has_value());
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
  Mapping staging_;
  std::uint64_t staged_ = 0;
  std::unique_ptr<GpuDevice> device_;
};

std::unique_ptr<DeviceUnderTest> make(const ContractOptions& options, HeadroomSource& headroom) {
  const std::shared_ptr<GpuDriver> gpu = driver();
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
  return std::make_unique<RemoteGpuUnderTest>(gpu, std::move(*device), options.frame_bytes);
}

}  // namespace

std::vector<DeviceFactory> device_factories() {
  std::string name = wanted() + "FilledByAWriter";
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return {{name, 2 * mib, make}};
}

}  // namespace penstock
