// SPDX-License-Identifier: Apache-2.0
#include "service/host_setup.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "dataplane/device/host/host_device.hpp"

namespace penstock {
namespace {

// Sockets, checkpoints, buffers, the ring, the log: what is not a frame.
constexpr std::uint64_t other_descriptors = 4096;

ReaderOptions reader_options(const ReaderConfig& config) {
  ReaderOptions options;
  switch (config.io) {
    case ReaderIo::automatic: options.io = ReaderOptions::Io::automatic; break;
    case ReaderIo::uring: options.io = ReaderOptions::Io::uring; break;
    case ReaderIo::pread: options.io = ReaderOptions::Io::pread; break;
  }
  return options;
}

}  // namespace

std::uint64_t locked_budget(const Config& config, HeadroomSource& headroom) {
  if (config.locked_host_bytes) return *config.locked_host_bytes;
  const std::uint64_t quarter = headroom.limit_bytes() / 4;
  if (may_lock_any_memory()) return quarter;
  const auto limit = locked_memory_limit();
  return limit ? std::min(quarter, limit->soft) : 0;
}

Outcome<HostSetup> start_host_device(const Config& config, HeadroomSource& headroom,
                                     std::uint64_t descriptors) {
  HostFrameOptions frames;
  frames.frame_bytes = config.host.page_bytes.value_or(default_host_frame_bytes);
  frames.capacity_bytes =
      config.host.capacity_bytes.value_or(default_host_capacity(headroom, frames.frame_bytes));
  if (frames.capacity_bytes < frames.frame_bytes) {
    return fail(FailureKind::configuration,
                fmt::format("device.host.capacity of {} is less than one page of {}",
                            format_bytes(frames.capacity_bytes), format_bytes(frames.frame_bytes)),
                "raise device.host.capacity or lower device.host.page_bytes");
  }
  // Also: a frame's entry is made for all of the capacity.
  if (frames.capacity_bytes > headroom.limit_bytes()) {
    return fail(
        FailureKind::configuration,
        fmt::format("device.host.capacity of {} is more than the {} that the machine or a cgroup allows",
                    format_bytes(frames.capacity_bytes), format_bytes(headroom.limit_bytes())),
        "lower device.host.capacity, or set it to \"auto\"");
  }
  if (config.host.headroom_bytes.value_or(0) >= frames.capacity_bytes) {
    return fail(FailureKind::configuration,
                fmt::format("device.host.headroom of {} leaves nothing of the capacity of {}",
                            format_bytes(*config.host.headroom_bytes), format_bytes(frames.capacity_bytes)),
                "lower device.host.headroom or raise device.host.capacity");
  }
  const std::uint64_t room =
      descriptors > other_descriptors ? descriptors - other_descriptors : descriptors / 2;
  auto opened = HostDevice::open(frames, headroom);
  if (!opened) {
    return fail(FailureKind::exhausted,
                fmt::format("host memory can't be a device: {}", opened.error().operation));
  }
  const auto device = std::make_shared<HostDevice>(std::move(*opened));
  HostSetup setup;
  setup.limits = device->owner().limits();
  setup.frames_max = room;

  DataplaneThreadOptions options;
  options.name = "penstock-host";
  options.ring.slots = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(config.reader.ring_bytes / options.ring.slot_bytes, 2, 65534));
  options.reader = reader_options(config.reader);
  options.stream.bandwidth_bytes_per_second = config.reader.bandwidth_bytes;
  options.pager.budget_bytes = std::min(setup.limits.capacity_bytes, room * setup.limits.frame_bytes);
  options.pager.revoke_deadline = config.service.revoke_deadline;
  options.pager.cooperative_deadline = config.service.cooperative_deadline;
  options.pager.stop_deadline = std::chrono::seconds(3);
  auto thread = DataplaneThread::start({.owner = std::shared_ptr<FrameOwner>(device, &device->owner()),
                                        .writer = std::shared_ptr<FrameWriter>(device, &device->writer())},
                                       std::make_unique<SimpleEviction>(), options);
  if (!thread) return tl::unexpected(thread.error());
  setup.thread = std::move(*thread);
  const ReaderReport& report = setup.thread->reader();
  if (report.reason.empty())
    spdlog::info("reader {}, ring {}", report.backend, format_bytes(report.ring_bytes));
  else
    spdlog::warn("reader {}, ring {}: {}", report.backend, format_bytes(report.ring_bytes), report.reason);
  return setup;
}

}  // namespace penstock
