// SPDX-License-Identifier: Apache-2.0
#include "service/host_setup.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/resource_limits.hpp"
#include "dataplane/base/units.hpp"
#include "dataplane/device/host/host_device.hpp"

namespace penstock {
namespace {

constexpr std::uint64_t few_descriptors = 1024;

}  // namespace

std::uint64_t locked_budget(const Config& config, HeadroomSource& headroom) {
  const std::uint64_t limit = headroom.limit_bytes();
  if (config.locked_host_bytes && *config.locked_host_bytes > limit) {
    spdlog::warn("host.locked_bytes is {}, and the machine or a cgroup allows {} in all: that is the budget",
                 format_bytes(*config.locked_host_bytes), format_bytes(limit));
  }
  if (config.locked_host_bytes) return std::min(*config.locked_host_bytes, limit);
  const std::uint64_t quarter = limit / 4;
  if (may_lock_any_memory()) return quarter;
  const auto lockable = locked_memory_limit();
  return lockable ? std::min(quarter, lockable->soft) : 0;
}

std::shared_ptr<HostTier> make_host_tier(std::uint64_t budget_bytes, HeadroomSource& headroom,
                                         std::uint64_t descriptors) {
  HostTierOptions options;
  // A sixteenth: frames of GPUs and sockets need them more, and 65536 are enough for 32 GiB. Few are all needed there.
  const std::uint64_t most = descriptors < few_descriptors ? 0 : descriptors / 16;
  const std::uint64_t pages = std::min(budget_bytes / options.page_bytes, most);
  options.capacity_bytes = pages * options.page_bytes;
  options.reserve_bytes = headroom.limit_bytes() / 16;
  if (pages == 0) return nullptr;
  auto tier = HostTier::make(options, headroom);
  if (tier) return *std::move(tier);
  spdlog::warn("GPUs have no pinned host tier: {} ({})", tier.error().operation, tier.error().native);
  return nullptr;
}

Outcome<DeviceSetup> start_host_device(const Config& config, HeadroomSource& headroom,
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
  auto opened = HostDevice::open(frames, headroom);
  if (!opened) {
    return fail(FailureKind::exhausted,
                fmt::format("host memory can't be a device: {}", opened.error().operation));
  }
  const auto device = std::make_shared<HostDevice>(std::move(*opened));
  DeviceSetup setup;
  setup.id = setup.kind = "host";
  setup.headroom_bytes = config.host.headroom_bytes.value_or(0);
  setup.frames_max = descriptors_for_frames(descriptors);
  setup.host_frames =
      HostFrames{.frame_bytes =
                     [device, each = frames.frame_bytes] {
                       const HostFrameStats all = device->owner().stats();
                       return (all.alive + all.ready + all.in_the_making + all.dying) * each;
                     },
                 .set_making_ahead = [device](bool allowed) { device->owner().set_making_ahead(allowed); },
                 .ahead_bytes = frames.ready_pool_frames * frames.frame_bytes};
  return start_device(config, std::move(setup),
                      {.owner = std::shared_ptr<FrameOwner>(device, &device->owner()),
                       .writer = std::shared_ptr<FrameWriter>(device, &device->writer())});
}

}  // namespace penstock
