// SPDX-License-Identifier: Apache-2.0
// Staging: a ring of page-locked chunks, taken and given back in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dataplane/device/gpu/gpu_driver.hpp"

namespace penstock {

class Staging {
 public:
  // REQUIRES: the context outlives it and is entered, here and at the end.
  static DriverCode make(DriverContext& context, std::uint64_t chunk_bytes, std::size_t chunks,
                         std::unique_ptr<Staging>& made);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  std::size_t chunks() const { return chunks_; }
  std::size_t free_chunks() const { return chunks_ - taken_; }
  // REQUIRES: one is free.
  std::span<std::byte> take();
  // Where kernels see it. REQUIRES: it is of a chunk.
  DeviceAddress device_address(const std::byte* at) const {
    return on_device_ + static_cast<std::uint64_t>(at - static_cast<const std::byte*>(memory_));
  }
  // The `count` that were taken first.
  void give_back(std::size_t count);

 private:
  Staging(DriverContext& context, void* memory, std::uint64_t chunk_bytes, std::size_t chunks)
      : context_(context), memory_(memory), chunk_bytes_(chunk_bytes), chunks_(chunks) {}

  DriverContext& context_;
  void* const memory_;
  DeviceAddress on_device_{};
  const std::uint64_t chunk_bytes_;
  const std::size_t chunks_;
  std::size_t next_ = 0, taken_ = 0;
};

}  // namespace penstock
