// SPDX-License-Identifier: Apache-2.0
// How fast the writer loads against the bus, and what a fault costs besides its reads.
#include <algorithm>
#include <memory>

#include "dataplane/base/mapping.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/device/gpu/gpu_frame_writer.hpp"
#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/support/drive_device.hpp"
#include "tests/support/fixed_headroom.hpp"

namespace penstock::gpu_check {
namespace {

constexpr std::uint64_t slot_bytes = 1ull << 20;

// The service's own device, its writer in this process.
struct Device {
  Mapping staging;  // Before the device, whose end unregisters it.
  std::unique_ptr<GpuDevice> device;

  static std::optional<Device> open(const Gpu& gpu) {
    const std::uint64_t bytes = scale().frame_bytes;
    auto owner = GpuFrameOwner::open(gpu.shared_driver(),
                                     {.frame_bytes = bytes, .capacity_bytes = 2 * scale().frames * bytes},
                                     std::make_shared<FixedHeadroom>());
    auto writer = GpuFrameWriter::open(gpu.shared_driver(), {});
    auto staging = Mapping::anonymous(std::max(bytes, 32 * slot_bytes), PageKind::transparent);
    if (!owner || !writer || !staging) return std::nullopt;
    auto made = GpuDevice::open(*std::move(owner), *std::move(writer));
    if (!made || !(*made)->writer().use_staging(staging->bytes(), -1)) return std::nullopt;
    std::ranges::copy(pattern(3, staging->size()), staging->bytes().begin());
    return Device{.staging = *std::move(staging), .device = *std::move(made)};
  }

  // Copies of slots until `bytes` of staged memory have gone into the frame. The fence of the last one.
  std::optional<FenceId> load(FrameId frame, std::uint64_t bytes, const CopyConversion& how = {}) {
    FrameWriter& writer = device->writer();
    const std::uint64_t parts = how.stored == how.wanted ? 1 : 2;  // f32 to bf16.
    std::optional<FenceId> last;
    for (std::uint64_t at = 0; at < bytes; at += slot_bytes) {
      const auto source = staging.bytes().subspan(at % staging.size(), slot_bytes);
      Result<FenceId> fence = writer.copy(frame, at / parts, source, how);
      while (!fence && fence.error().code == Errc::busy) {
        wait_readable(writer.event_fd());
        if (!writer.reached()) return std::nullopt;
        fence = writer.copy(frame, at / parts, source, how);
      }
      if (!fence) return std::nullopt;
      last = *fence;
    }
    return last;
  }

  bool load_all(const std::vector<FrameId>& frames, std::uint64_t bytes, const CopyConversion& how = {}) {
    std::optional<FenceId> last;
    for (const FrameId frame : frames) {
      last = load(frame, bytes, how);
      if (!last) return false;
    }
    return last && wait_reached(device->writer(), *last);
  }

  std::vector<FrameId> make(std::uint64_t count) {
    for (std::uint64_t tag = 0; tag < count; ++tag) device->owner().create(tag);
    std::vector<FrameId> frames;
    for (const CreateDone& done : reap_all(device->owner(), count))
      if (done.result == CreateResult::created && device->writer().attach(done.frame))
        frames.push_back(done.frame);
    return frames;
  }

  void end(const std::vector<FrameId>& frames) {
    for (const FrameId frame : frames) {
      device->writer().detach(frame);
      device->owner().destroy(frame);
    }
  }
};

double gigabytes(std::uint64_t bytes, double seconds) { return static_cast<double>(bytes) / seconds / 1e9; }

// Copies of whole frames from page-locked memory, back to back: what the bus gives.
double bus_rate(Gpu& gpu, Report& report) {
  const std::uint64_t bytes = scale().frame_bytes;
  const int copies = scale().is_small ? 4 : 64;
  Frame one(gpu.driver()), two(gpu.driver());
  void* memory = nullptr;
  DriverContext& context = gpu.context();
  if (!report.expect(
          one.make_mapped().ok() && two.make_mapped().ok() && context.allocate_host(2 * bytes, memory).ok(),
          "frames and page-locked memory are made"))
    return 0;
  std::ranges::copy(pattern(5, bytes), static_cast<std::byte*>(memory));
  std::ranges::copy(pattern(6, bytes), static_cast<std::byte*>(memory) + bytes);
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    bool all = true;
    const double seconds = seconds_of([&] {
      for (int at = 0; at < copies; ++at)
        all = context
                  .copy_in(at % 2 == 0 ? one.at() : two.at(),
                           static_cast<std::byte*>(memory) + (at % 2 == 0 ? 0 : bytes), bytes, gpu.stream())
                  .ok() &&
              all;
      all = context.synchronize(gpu.stream()).ok() && all;
    });
    report.expect(all, "copies end well");
    best = std::max(best, gigabytes(bytes * static_cast<std::uint64_t>(copies), seconds));
  }
  report.expect(context.free_host(memory).ok(), "page-locked memory is given back");
  return best;
}

}  // namespace

void load_rate(Report& report) {
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  const double limit = bus_rate(*gpu, report);
  std::optional<Device> device = Device::open(*gpu);
  if (!report.expect(device.has_value(), "the service's device opens")) return;
  const std::uint64_t bytes = scale().frame_bytes, count = scale().frames;
  bool all = true;
  double best = 0, best_made = 0, best_cast = 0;
  for (int round = 0; round < 3 && all; ++round) {
    std::vector<FrameId> frames;
    double load_s = 0;
    const double made_s = seconds_of([&] {
      frames = device->make(count);
      load_s = seconds_of([&] { all = frames.size() == count && device->load_all(frames, bytes); });
    });
    const CopyConversion cast{.stored = Dtype::f32, .wanted = Dtype::bf16, .scale = 1};
    const double cast_s = seconds_of([&] { all = all && device->load_all(frames, bytes, cast); });
    device->end(frames);
    best = std::max(best, gigabytes(count * bytes, load_s));
    best_made = std::max(best_made, gigabytes(count * bytes, made_s));
    best_cast = std::max(best_cast, gigabytes(count * bytes, cast_s));
  }
  report.expect(all, "loads end well");
  report.figure("bus_GB_per_s", limit);
  report.figure("load_GB_per_s", best);
  report.figure("load_with_creation_GB_per_s", best_made);
  report.figure("load_f32_to_bf16_GB_per_s", best_cast);
  report.figure("load_of_bus", best / limit);
  report.figure("load_with_creation_of_bus", best_made / limit);
  if (!scale().is_small) report.expect(best > 0.8 * limit, "the writer loads at 0.8 of the bus at least");
}

void fault_latency(Report& report) {
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  std::optional<Device> device = Device::open(*gpu);
  if (!report.expect(device.has_value(), "the service's device opens")) return;
  gpu->context();
  std::vector<double> create, copy, share, map, unmap, whole;
  bool all = true;
  for (std::uint64_t round = 0; round < scale().repeats && all; ++round) {
    std::vector<FrameId> frames;
    std::optional<ExportedFrame> exported;
    Frame client(gpu->driver());
    const auto timed = [](std::vector<double>& times, const auto& call) {
      times.push_back(seconds_of(call) * 1e6);
    };
    timed(whole, [&] {
      timed(create, [&] { frames = device->make(1); });
      if (frames.empty()) return;
      timed(copy, [&] { all = device->load_all(frames, scale().frame_bytes); });
      timed(share, [&] {
        if (auto made = device->device->owner().share(frames.front(), FrameAccess::shared_read_only))
          exported.emplace(*std::move(made));
      });
      if (!exported) return;
      timed(map, [&] { all = client.import_mapped(exported->get(), MappedRights::read).ok() && all; });
    });
    all = all && exported.has_value();
    if (all) timed(unmap, [&] { client.give_back(); });
    device->end(frames);
  }
  if (!report.expect(all, "faults are served")) return;
  for (const auto& [name, times] :
       {std::pair{"create_and_zero", &create}, std::pair{"copy", &copy}, std::pair{"share", &share},
        std::pair{"client_map", &map}, std::pair{"client_unmap", &unmap}, std::pair{"whole", &whole}}) {
    const Spread spread = spread_of(*times);
    report.figure(std::string(name) + "_us_p50", spread.p50);
    report.figure(std::string(name) + "_us_p99", spread.p99);
  }
}

}  // namespace penstock::gpu_check
