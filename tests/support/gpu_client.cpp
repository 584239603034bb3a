// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu_client.hpp"

#include <utility>

#include "dataplane/base/check.hpp"

namespace penstock {

GpuClient::GpuClient(std::shared_ptr<GpuDriver> gpu, std::uint64_t frame_bytes)
    : gpu_(std::move(gpu)), frame_bytes_(frame_bytes) {
  CHECK(gpu_->open_context(context_).ok());
  CHECK(context_->make_stream(stream_).ok());
}

GpuClient::~GpuClient() { static_cast<void>(context_->destroy_stream(stream_)); }

std::vector<std::byte> GpuClient::read(int frame_fd) {
  std::vector<std::byte> content(frame_bytes_);
  const bool done = with_mapping(frame_fd, MappedRights::read, [&](DeviceAddress at) {
    return context_->copy_out(content.data(), at, content.size(), stream_);
  });
  return done ? content : std::vector<std::byte>{};
}

bool GpuClient::fill(int frame_fd, std::byte value) {
  const std::vector<std::byte> content(frame_bytes_, value);
  return with_mapping(frame_fd, MappedRights::read_write, [&](DeviceAddress at) {
    return context_->copy_in(at, content.data(), content.size(), stream_);
  });
}

bool GpuClient::with_mapping(int frame_fd, MappedRights rights,
                             const std::function<DriverCode(DeviceAddress)>& use) {
  DeviceAddress at{};
  MemoryHandle handle{};
  CHECK(context_->enter().ok());
  CHECK(gpu_->reserve(frame_bytes_, frame_bytes_, at).ok());
  bool done = gpu_->import_fd(frame_fd, handle).ok();
  if (done) {
    CHECK(gpu_->map(at, frame_bytes_, handle).ok());
    done = gpu_->set_access(at, frame_bytes_, rights).ok() && use(at).ok() &&
           context_->synchronize(stream_).ok();
    CHECK(gpu_->release(handle).ok());
    CHECK(gpu_->unmap(at, frame_bytes_).ok());
  }
  CHECK(gpu_->free_range(at, frame_bytes_).ok());
  return done;
}

}  // namespace penstock
