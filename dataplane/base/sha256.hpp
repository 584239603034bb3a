// SPDX-License-Identifier: Apache-2.0
// SHA-256 over bytes that arrive in parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace penstock {

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  // The digest of all bytes since construction or the last finish(), and starts anew.
  Sha256Digest finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);
// Lower-case hex digits, two a byte.
std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace penstock
