// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/pager/minimal_loop.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <poll.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/units.hpp"
#include "tests/support/drive_device.hpp"

namespace penstock::bench {

MinimalLoop::MinimalLoop(std::uint64_t bytes, std::uint64_t read_bytes, std::uint64_t in_flight)
    : read_bytes_(read_bytes), depth_(in_flight / read_bytes), device_(bytes) {
  auto reader = UringReader::open({.queue_depth = static_cast<std::uint32_t>(depth_)}, nullptr);
  CHECK(reader);
  reader_ = *std::move(reader);
}

std::byte* MinimalLoop::place(std::uint64_t offset) {
  const FrameId frame = frames_[offset / default_host_frame_bytes];
  return device_.device().writer().address(frame).data() + offset % default_host_frame_bytes;
}

double MinimalLoop::rate(const CheckpointFile& file) {
  device_.wait_until_ready();
  HostFrameOwner& owner = device_.device().owner();
  HostFrameWriter& writer = device_.device().writer();
  const std::uint64_t bytes = file.identity().bytes;
  for (std::uint64_t at = 0; at < bytes; at += default_host_frame_bytes) owner.create(at);
  for (const CreateDone& done : reap_all(owner, divide_up(bytes, default_host_frame_bytes))) {
    CHECK(done.result == CreateResult::created && writer.attach(done.frame));
    frames_.push_back(done.frame);
  }
  const Result<FileId> added = reader_->add(file.cached_fd(), file.direct_fd());
  CHECK(added && file.direct().usable);
  const double rate = pass(*added, bytes);
  reader_->remove(*added);
  for (const FrameId frame : std::exchange(frames_, {})) {
    writer.detach(frame);
    owner.destroy(frame);
  }
  return rate;
}

double MinimalLoop::pass(FileId file, std::uint64_t bytes) {
  std::array<ReadDone, 64> done;
  std::vector<ReadOp> ops;
  std::uint64_t next = 0, read = 0;
  const Nanoseconds start = monotonic_now();
  while (read < bytes) {
    ops.clear();
    for (; next < bytes && reader_->in_flight() + ops.size() < depth_; next += read_bytes_) {
      ops.push_back({.file = file,
                     .extent = {.offset = next, .length = read_bytes_},
                     .destination = place(next),
                     .path = ReadPath::direct,
                     .tag = next});
    }
    CHECK(ops.empty() || reader_->submit(ops));
    const Result<std::size_t> count = reader_->reap(done);
    CHECK(count);
    for (std::size_t index = 0; index < *count; ++index) {
      CHECK(done[index].result == static_cast<std::int32_t>(std::min(read_bytes_, bytes - done[index].tag)));
      read += static_cast<std::uint64_t>(done[index].result);
    }
    if (*count > 0) continue;
    pollfd wait{.fd = reader_->event_fd(), .events = POLLIN, .revents = 0};
    static_cast<void>(::poll(&wait, 1, 1000));
  }
  return static_cast<double>(bytes) / std::chrono::duration<double>(monotonic_now() - start).count();
}

}  // namespace penstock::bench
