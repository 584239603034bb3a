// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/gpu_identity.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace penstock {
namespace {

// ROCm fills the 16 bytes with the hex digits of a serial number.
bool is_text(const GpuIdentity& gpu) {
  return std::ranges::all_of(gpu.uuid, [](std::uint8_t byte) { return std::isxdigit(byte) != 0; });
}

bool is_missing(const GpuIdentity& gpu) {
  return std::ranges::all_of(gpu.uuid, [&gpu](std::uint8_t byte) { return byte == gpu.uuid.front(); });
}

// Of the GPU alone, so that a process that sees fewer of them names it alike.
std::string digits_of_uuid(const GpuIdentity& gpu) {
  std::string text = uuid_text(gpu);
  if (!is_text(gpu)) return text.substr(0, 8);
  // Neither half of a serial number has to differ from that of the next GPU.
  std::uint32_t high = 0, low = 0;
  std::from_chars(text.data(), text.data() + 8, high, 16);
  std::from_chars(text.data() + 8, text.data() + 16, low, 16);
  return fmt::format("{:08x}", high ^ low);
}

// FNV-1a: stable over builds and machines, unlike std::hash.
std::string digits_of_both(const GpuIdentity& gpu) {
  std::uint32_t hash = 2166136261u;
  for (const char c : uuid_text(gpu) + to_text(gpu.pci)) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619u;
  }
  return fmt::format("{:08x}", hash);
}

template <class Number>
bool take_hex(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char separator) {
  if (text.empty() || text.front() != separator) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string_view gpu_vendor_name(GpuVendor vendor) { return vendor == GpuVendor::cuda ? "cuda" : "hip"; }

Result<PciAddress> parse_pci_address(std::string_view text) {
  PciAddress address;
  const bool whole = take_hex(text, address.domain) && take(text, ':') && take_hex(text, address.bus) &&
                     take(text, ':') && take_hex(text, address.device);
  if (!whole) return Error{Errc::corrupt, 0, "PCI address"};
  if (take(text, '.') && !take_hex(text, address.function)) return Error{Errc::corrupt, 0, "PCI address"};
  if (!text.empty()) return Error{Errc::corrupt, 0, "PCI address"};
  return address;
}

std::string to_text(const PciAddress& address) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain, address.bus, address.device,
                     address.function);
}

std::string uuid_text(const GpuIdentity& gpu) {
  if (is_text(gpu)) return {gpu.uuid.begin(), gpu.uuid.end()};
  std::string text;
  for (std::size_t at = 0; at < gpu.uuid.size(); ++at) {
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += fmt::format("{:02x}", gpu.uuid[at]);
  }
  return text;
}

void name_gpus(std::span<GpuIdentity> gpus) {
  std::vector<std::string> digits;
  for (const GpuIdentity& gpu : gpus) digits.push_back(digits_of_uuid(gpu));
  for (std::size_t at = 0; at < gpus.size(); ++at) {
    GpuIdentity& gpu = gpus[at];
    const bool unique = !is_missing(gpu) && std::ranges::count(digits, digits[at]) == 1;
    gpu.id = fmt::format("{}-{}", gpu_vendor_name(gpu.vendor), unique ? digits[at] : digits_of_both(gpu));
  }
}

}  // namespace penstock
