// SPDX-License-Identifier: Apache-2.0
// Which GPU: by UUID and PCI address. Ordinals change with environment variables and name nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/base/result.hpp"

namespace penstock {

enum class GpuVendor : std::uint8_t { cuda, hip };
std::string_view gpu_vendor_name(GpuVendor vendor);  // "cuda", "hip": the `kind` of a device.

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0, device = 0, function = 0;
  friend bool operator==(const PciAddress&, const PciAddress&) = default;
};
// "0000:65:00.0", also without a function or with a domain of eight digits. Errc::corrupt for what is none.
Result<PciAddress> parse_pci_address(std::string_view text);
std::string to_text(const PciAddress& address);

struct GpuIdentity {
  GpuVendor vendor = GpuVendor::cuda;
  std::array<std::uint8_t, 16> uuid{};
  PciAddress pci;
  std::string name;  // As the vendor sells it; for people only.
  std::string id;    // "cuda-1a2b3c4d"; set by name_gpus.
};

// 32 hex digits in the usual groups; HIP's UUIDs that are text as that text.
std::string uuid_text(const GpuIdentity& gpu);
// Gives each GPU its id: eight hex digits of its own UUID, whatever else is in the list. A GPU without a UUID, or whose
// digits another one has, gets a mix of UUID and address instead, so that ids differ and stay.
void name_gpus(std::span<GpuIdentity> gpus);

}  // namespace penstock
