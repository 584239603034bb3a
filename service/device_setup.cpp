// SPDX-License-Identifier: Apache-2.0
#include "service/device_setup.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/units.hpp"
#include "dataplane/core/simple_eviction.hpp"
#include "service/control/buffer_reader.hpp"

namespace penstock {
namespace {

// Sockets, checkpoints, buffers, the ring, the log: what is not a frame.
constexpr std::uint64_t other_descriptors = 4096;

void say_scrubbing_is_off(const std::string& id, const SumsOff& off) {
  const std::string why =
      off.writer_lost ? std::string("the process that fills its memory was lost while one was taken")
                      : fmt::format("{} ({}), again and again", off.error.operation, off.error.native);
  spdlog::warn("device {}: scrubbing is off for {} s: no checksums of its pages: {}", id,
               std::chrono::duration_cast<std::chrono::seconds>(off.off).count(), why);
}

}  // namespace

std::uint64_t descriptors_for_frames(std::uint64_t descriptors) {
  return descriptors > other_descriptors ? descriptors - other_descriptors : descriptors / 2;
}

Outcome<DeviceSetup> start_device(const Config& config, DeviceSetup setup, SharedDevice device) {
  setup.limits = device.owner->limits();
  DataplaneThreadOptions options;
  options.name = "penstock-" + setup.id;
  options.ring.slots = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(config.reader.ring_bytes / options.ring.slot_bytes, 2, 65534));
  options.reader = reader_options(config.reader);
  options.stream.bandwidth_bytes_per_second = config.reader.bandwidth_bytes;
  options.tier = setup.tier;
  options.pager.budget_bytes =
      std::min(setup.limits.capacity_bytes, setup.frames_max * setup.limits.frame_bytes);
  options.pager.revoke_deadline = config.service.revoke_deadline;
  options.pager.cooperative_deadline = config.service.cooperative_deadline;
  options.pager.stop_deadline = std::chrono::seconds(3);
  options.pager.on_sums_off = [id = setup.id](const SumsOff& off) { say_scrubbing_is_off(id, off); };
  auto thread = DataplaneThread::start(std::move(device), std::make_unique<SimpleEviction>(), options);
  if (!thread) return tl::unexpected(thread.error());
  setup.thread = std::move(*thread);
  const ReaderReport& report = setup.thread->reader();
  if (report.reason.empty()) {
    spdlog::info("device {}: reader {}, ring {}", setup.id, report.backend, format_bytes(report.ring_bytes));
  } else {
    spdlog::warn("device {}: reader {}, ring {}: {}", setup.id, report.backend,
                 format_bytes(report.ring_bytes), report.reason);
  }
  return setup;
}

}  // namespace penstock
