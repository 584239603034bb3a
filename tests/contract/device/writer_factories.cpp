// SPDX-License-Identifier: Apache-2.0
// Frames of host memory that a penstock-writer fills.
#include <cstring>
#include <utility>

#include "dataplane/base/memfd.hpp"
#include "tests/contract/device/device_under_test.hpp"
#include "tests/support/remote_host_device.hpp"

namespace penstock {
namespace {

class RemoteHostUnderTest final : public DeviceUnderTest {
 public:
  RemoteHostUnderTest(const HostFrameOptions& options, HeadroomSource& headroom)
      : device_(options, headroom) {
    device_.make_staging(16 * mib);
  }

  FrameOwner& owner() override { return device_.owner(); }
  FrameWriter& writer() override { return device_.writer(); }
  std::span<const std::byte> stage(std::span<const std::byte> bytes) override { return device_.stage(bytes); }

  std::vector<std::byte> read_as_client(int frame_fd) override {
    const Result<std::uint64_t> bytes = size_of(frame_fd);
    if (!bytes) return {};
    const Result<Mapping> mapping = Mapping::shared(frame_fd, *bytes, Access::read);
    if (!mapping) return {};
    return {mapping->bytes().begin(), mapping->bytes().end()};
  }
  bool fill_as_client(int frame_fd, std::byte value) override {
    const Result<std::uint64_t> bytes = size_of(frame_fd);
    if (!bytes) return false;
    const Result<Mapping> mapping = Mapping::shared(frame_fd, *bytes, Access::read_write);
    if (!mapping) return false;
    std::memset(mapping->data(), static_cast<int>(value), mapping->size());
    return true;
  }

 private:
  test::RemoteHostDevice device_;
};

std::unique_ptr<DeviceUnderTest> make(const ContractOptions& options, HeadroomSource& headroom) {
  return std::make_unique<RemoteHostUnderTest>(HostFrameOptions{.frame_bytes = options.frame_bytes,
                                                                .capacity_bytes = options.capacity_bytes,
                                                                .ready_pool_frames = 4,
                                                                .pages = HostPages::small},
                                               headroom);
}

}  // namespace

std::vector<DeviceFactory> device_factories() { return {{"HostFilledByAWriter", 256 * kib, make}}; }

}  // namespace penstock
