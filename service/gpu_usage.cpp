// SPDX-License-Identifier: Apache-2.0
#include "service/gpu_usage.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dataplane/device/usage/amd_source.hpp"
#include "dataplane/device/usage/counted_source.hpp"
#include "dataplane/device/usage/nvml_source.hpp"

namespace penstock {
namespace {

// NVML answers in a millisecond; AMD's processes are found by looking at every process of the machine.
constexpr UsageTimes nvml_times{.interval = std::chrono::milliseconds(500)};
constexpr UsageTimes amd_times{.interval = std::chrono::seconds(2)};

std::unique_ptr<UsageSource> open_source(GpuVendor vendor) {
  if (vendor == GpuVendor::cuda) return std::make_unique<NvmlSource>();
  return std::make_unique<AmdSource>();
}

}  // namespace

FrameBytes frame_bytes_of(const GpuFrameStats& stats, std::uint64_t frame_bytes) {
  const std::uint64_t least = stats.alive + stats.condemned + stats.unreturned;
  return {.least = least * frame_bytes, .most = (least + stats.in_the_making + stats.dying) * frame_bytes};
}

void FreeMemoryNotes::note(std::uint64_t free_bytes, const FrameBytes& frames) {
  const std::lock_guard lock(mutex_);
  // It was read some time since the one before.
  const FrameBytes before = reading_.number == 0 ? frames : before_;
  before_ = frames;
  ++reading_.number;
  reading_.free_bytes = free_bytes;
  reading_.frames = {.least = std::min(before.least, frames.least),
                     .most = std::max(before.most, frames.most)};
}

std::optional<WriterReading> FreeMemoryNotes::newest() const {
  const std::lock_guard lock(mutex_);
  if (reading_.number == 0) return std::nullopt;
  return reading_;
}

UsageFeed::Device usage_input(const GpuDescription& gpu, const std::shared_ptr<GpuDevice>& device,
                              std::uint64_t frame_bytes, const WriterStats& writer,
                              std::shared_ptr<const FreeMemoryNotes> notes) {
  UsageFeed::Device input;
  input.gpu = gpu.identity;
  input.total_bytes = gpu.total_bytes;
  input.shares_host_memory = gpu.shares_host_memory;
  // A reading that hangs shall not keep the device from its end.
  const std::weak_ptr<GpuDevice> weak = device;
  input.frames = [weak, frame_bytes] {
    const std::shared_ptr<GpuDevice> alive = weak.lock();
    return alive ? frame_bytes_of(alive->stats(), frame_bytes) : FrameBytes{};
  };
  input.writer_pid = [weak, &writer]() -> std::uint32_t {
    const std::shared_ptr<GpuDevice> alive = weak.lock();
    return alive ? static_cast<std::uint32_t>(writer.pid.load()) : 0;
  };
  input.seen_by_writer = [notes = std::move(notes)] { return notes->newest(); };
  return input;
}

std::vector<UsageFeed::Device> watch_usage(std::vector<DeviceSetup>& devices) {
  std::vector<UsageFeed::Device> inputs;
  for (const GpuVendor vendor : {GpuVendor::cuda, GpuVendor::hip}) {
    std::vector<CountedSource::Device> counted;
    const std::size_t first = inputs.size();
    for (std::size_t at = 0; at < devices.size(); ++at) {
      if (!devices[at].usage || devices[at].usage->gpu.vendor != vendor) continue;
      inputs.push_back(*std::exchange(devices[at].usage, std::nullopt));
      inputs.back().position = at;
      counted.push_back({.gpu = inputs.back().gpu, .frames = inputs.back().frames});
    }
    if (counted.empty()) continue;
    const auto watch =
        std::make_shared<UsageWatch>(std::make_unique<CountedSource>(open_source(vendor), std::move(counted)),
                                     vendor == GpuVendor::cuda ? nvml_times : amd_times);
    for (std::size_t at = first; at < inputs.size(); ++at) inputs[at].watch = watch;
  }
  return inputs;
}

}  // namespace penstock
