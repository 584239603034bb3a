// SPDX-License-Identifier: Apache-2.0
// What the contract suite needs of an implementation of the device seam. One executable per family of
// implementations: device_contract_test.cpp and a file that defines device_factories().
#pragma once

#include <cstddef>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "dataplane/device/device_memory.hpp"
#include "dataplane/device/headroom_source.hpp"

namespace penstock {

struct ContractOptions {
  std::uint64_t frame_bytes = 0;
  std::uint64_t capacity_bytes = 0;
};

class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  DeviceUnderTest(const DeviceUnderTest&) = delete;
  DeviceUnderTest& operator=(const DeviceUnderTest&) = delete;

  virtual FrameOwner& owner() = 0;
  virtual FrameWriter& writer() = 0;

  // The same bytes where this device's writer may copy from; valid until about 16 MiB more have been staged.
  virtual std::span<const std::byte> stage(std::span<const std::byte> bytes) { return bytes; }
  // False where read-only is what a client asks for when it maps, and its descriptor carries all rights: GPUs.
  virtual bool seals_what_is_shared() const { return true; }
  // As a client that got the descriptor: maps the frame, copies it out, unmaps. Empty when it could not be mapped.
  virtual std::vector<std::byte> read_as_client(int frame_fd) = 0;
  // As a client: maps the frame writable and fills it. False when that was refused.
  virtual bool fill_as_client(int frame_fd, std::byte value) = 0;

 protected:
  DeviceUnderTest() = default;
};

struct DeviceFactory {
  std::string name;
  std::uint64_t frame_bytes;  // A size that this device likes.
  std::unique_ptr<DeviceUnderTest> (*make)(const ContractOptions& options, HeadroomSource& headroom);

  friend std::ostream& operator<<(std::ostream& out, const DeviceFactory& factory) {
    return out << factory.name;
  }
};

std::vector<DeviceFactory> device_factories();

}  // namespace penstock
