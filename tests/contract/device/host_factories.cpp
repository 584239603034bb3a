// SPDX-License-Identifier: Apache-2.0
// The host device, with 2 MiB and with 4 KiB pages, and the same behind a FaultyDevice that injects nothing: the
// double must not change what it wraps.
#include <cstring>
#include <utility>

#include "dataplane/base/check.hpp"
#include "dataplane/base/mapping.hpp"
#include "dataplane/base/memfd.hpp"
#include "dataplane/device/host/host_device.hpp"
#include "tests/contract/device/device_under_test.hpp"
#include "tests/support/faulty_device.hpp"

namespace penstock {
namespace {

class HostUnderTest : public DeviceUnderTest {
 public:
  explicit HostUnderTest(HostDevice device) : device_(std::move(device)) {}

  FrameOwner& owner() override { return device_.owner(); }
  FrameWriter& writer() override { return device_.writer(); }

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
  HostDevice device_;
};

class FaultyHostUnderTest final : public HostUnderTest {
 public:
  explicit FaultyHostUnderTest(HostDevice device)
      : HostUnderTest(std::move(device)), faulty_(HostUnderTest::owner(), HostUnderTest::writer()) {}

  FrameOwner& owner() override { return faulty_.owner(); }
  FrameWriter& writer() override { return faulty_.writer(); }

 private:
  FaultyDevice faulty_;
};

template <class UnderTest, HostPages pages>
std::unique_ptr<DeviceUnderTest> make(const ContractOptions& options, HeadroomSource& headroom) {
  Result<HostDevice> device = HostDevice::open({.frame_bytes = options.frame_bytes,
                                                .capacity_bytes = options.capacity_bytes,
                                                .ready_pool_frames = 4,
                                                .pages = pages},
                                               headroom);
  if (!device) return nullptr;
  return std::make_unique<UnderTest>(std::move(*device));
}

}  // namespace

std::vector<DeviceFactory> device_factories() {
  return {
      {"HostWithHugePages", 2 * mib, make<HostUnderTest, HostPages::huge>},
      {"HostWithSmallPages", 64 * kib, make<HostUnderTest, HostPages::small>},
      {"FaultyHost", 256 * kib, make<FaultyHostUnderTest, HostPages::small>},
  };
}

}  // namespace penstock
