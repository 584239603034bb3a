// SPDX-License-Identifier: Apache-2.0
// E5 and E13: memory that no process shows, and what fresh memory holds.
#include <algorithm>
#include <deque>
#include <memory>

#include "dataplane/device/usage/amd_source.hpp"
#include "dataplane/device/usage/nvml_source.hpp"
#include "dataplane/device/usage/usage_figures.hpp"
#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/peer.hpp"

namespace penstock::gpu_check {
namespace {

std::unique_ptr<UsageSource> usage_source() {
  if (scale().vendor == GpuVendor::cuda) return std::make_unique<NvmlSource>();
  return std::make_unique<AmdSource>();
}

std::optional<UsageFigures> figures_now(UsageSource& source, const GpuIdentity& gpu, Report& report) {
  const Result<std::vector<DeviceUsage>> devices = source.read();
  const DeviceUsage* const usage = devices ? find_usage(*devices, gpu) : nullptr;
  if (usage == nullptr || usage->health != UsageHealth::readable) {
    report.skip(scale().vendor == GpuVendor::cuda ? "requires libnvidia-ml.so.1 that lists this GPU"
                                                  : "requires the amdgpu driver's files for this GPU");
    return std::nullopt;
  }
  report.figure("knows_processes", usage->knows_processes);
  return figures_of(*usage, {});
}

// Makes frames, sends their descriptors, and ends; so they are nobody's.
void leaves_frames(const Channel& channel, std::uint64_t count) {
  if (!channel.receive()) return;
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  std::deque<Frame> frames;
  for (std::uint64_t made = 0; made < count; ++made) {
    UniqueFd fd;
    Frame& frame = frames.emplace_back(gpu->driver());
    if (!frame.make().ok() || !frame.export_fd(fd).ok() || !channel.send(1, fd.get())) return;
  }
}

// Fills frames with bytes that are not zero, and is killed with them.
void leaves_bytes(const Channel& channel) {
  std::optional<Gpu> gpu = Gpu::open();
  std::uint64_t filled = 0;
  std::deque<Frame> frames;
  for (; gpu && filled < scale().held; ++filled) {
    Frame& frame = frames.emplace_back(gpu->driver());
    if (!frame.make_mapped().ok()) break;
    const bool done =
        filled == 0
            ? fill(*gpu, frame, 1)
            : gpu->context().copy_within(frame.at(), frames.front().at(), frame.bytes(), gpu->stream()).ok();
    if (!done) break;
  }
  if (gpu && !gpu->context().synchronize(gpu->stream()).ok()) filled = 0;
  channel.send(filled);
  channel.receive();
}

}  // namespace

void ghost_bytes(Report& report) {
  constexpr std::uint64_t count = 16;
  Peer leaving([](const Channel& channel) { leaves_frames(channel, count); });
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  const std::unique_ptr<UsageSource> source = usage_source();
  const GpuIdentity& identity = gpu->driver().description().identity;
  const std::optional<UsageFigures> before = figures_now(*source, identity, report);
  if (!before) return;
  leaving.channel().send(1);
  std::vector<UniqueFd> held;
  for (std::uint64_t at = 0; at < count; ++at) {
    std::optional<Message> message = leaving.channel().receive();
    if (message && message->fd) held.push_back(std::move(message->fd));
  }
  report.expect(leaving.ended_well() && held.size() == count, "a process leaves frames to descriptors alone");
  const std::optional<UsageFigures> during = figures_now(*source, identity, report);
  if (!during || !before->ghost_bytes || !during->ghost_bytes)
    return report.skip("requires the processes of this GPU, which its driver does not show here");
  const auto ghost =
      static_cast<std::int64_t>(*during->ghost_bytes) - static_cast<std::int64_t>(*before->ghost_bytes);
  const auto wanted = static_cast<std::int64_t>(count * scale().frame_bytes);
  report.figure("held_bytes", wanted);
  report.figure("ghost_before_bytes", *before->ghost_bytes);
  report.figure("ghost_growth_bytes", ghost);
  report.expect(ghost > wanted * 9 / 10 && ghost < wanted * 11 / 10,
                "ghost bytes grow by what only descriptors keep");
}

void fresh_frame_contents(Report& report) {
  Peer leaving(leaves_bytes);
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  const std::uint64_t filled = leaving.channel().value();
  report.figure("frames_filled_by_another", filled);
  if (!report.expect(filled > 0, "another process fills frames")) return;
  const std::uint64_t before = gpu->free_bytes();
  leaving.kill();
  report.figure("returned_after_kill_ms",
                gpu->seconds_until_free(before + filled * scale().frame_bytes * 9 / 10) * 1e3);
  std::uint64_t looked_at = 0, dirty_frames = 0, dirty_bytes = 0;
  std::vector<double> create_us;
  std::deque<Frame> frames;
  for (; looked_at < filled; ++looked_at) {
    Frame& frame = frames.emplace_back(gpu->driver());
    DriverCode code;
    create_us.push_back(seconds_of([&] { code = frame.make(); }) * 1e6);
    if (!code.ok() || !frame.map(MappedRights::read_write).ok()) break;
    const std::vector<std::byte> bytes = content(*gpu, frame);
    const auto dirty = std::ranges::count_if(bytes, [](std::byte byte) { return byte != std::byte{}; });
    dirty_bytes += static_cast<std::uint64_t>(dirty);
    dirty_frames += dirty != 0;
  }
  report.figure("frames_looked_at", looked_at);
  report.figure("frames_not_zero", dirty_frames);
  report.figure("bytes_not_zero", dirty_bytes);
  report.figure("is_zero", dirty_bytes == 0);
  report.figure("create_us_p50", spread_of(create_us).p50);
  report.figure("create_us_p99", spread_of(create_us).p99);
}

}  // namespace penstock::gpu_check
