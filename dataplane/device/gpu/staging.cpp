// SPDX-License-Identifier: Apache-2.0
#include "dataplane/device/gpu/staging.hpp"

#include "dataplane/base/check.hpp"

namespace penstock {

DriverCode Staging::make(DriverContext& context, std::uint64_t chunk_bytes, std::size_t chunks,
                         std::unique_ptr<Staging>& made) {
  CHECK(chunks > 0 && chunk_bytes > 0);
  void* memory = nullptr;
  const DriverCode code = context.allocate_host(chunk_bytes * chunks, memory);
  if (!code.ok()) return code;
  made.reset(new Staging(context, memory, chunk_bytes, chunks));
  return context.device_address(memory, made->on_device_);
}

Staging::~Staging() {
  static_cast<void>(insist([&] { return context_.free_host(memory_); }));
}

std::span<std::byte> Staging::take() {
  CHECK(taken_ < chunks_);
  std::byte* const chunk = static_cast<std::byte*>(memory_) + next_ * chunk_bytes_;
  next_ = (next_ + 1) % chunks_;
  ++taken_;
  return {chunk, chunk_bytes_};
}

void Staging::give_back(std::size_t count) {
  CHECK(count <= taken_);
  taken_ -= count;
}

}  // namespace penstock
