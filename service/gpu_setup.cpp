// SPDX-License-Identifier: Apache-2.0
#include "service/gpu_setup.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "dataplane/base/units.hpp"
#include "dataplane/device/gpu/gpu_device.hpp"
#include "dataplane/device/gpu/gpu_frame_owner.hpp"
#include "dataplane/device/gpu/gpu_headroom.hpp"
#include "dataplane/device/gpu/vendor.hpp"
#include "dataplane/writer/remote_filler.hpp"
#include "dataplane/writer/sharing_test.hpp"
#include "service/gpu_usage.hpp"

namespace penstock {
namespace {

// A driver that is well takes a second or two to start on a machine with many GPUs.
constexpr auto driver_limit = std::chrono::seconds(20);

// And so does a context. What takes longer is left to the device, whose writer has a watchdog.
constexpr auto sharing_limit = std::chrono::seconds(20);

// Beside this program, where builds put it, or in the libexec of the same prefix, where installations do.
std::string writer_path() {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::filesystem::path installed = folder.parent_path() / "libexec/penstock/penstock-writer";
  return std::filesystem::exists(installed, ignored) ? installed : folder / "penstock-writer";
}

// What the owner needs of the GPU's memory, and who tells it.
struct GpuMemory {
  GpuFrameOptions frames;
  std::shared_ptr<GpuHeadroom> headroom;
};

Outcome<GpuMemory> plan_memory(const GpuDescription& gpu, const DeviceConfig& config) {
  GpuFrameOptions frames;
  frames.frame_bytes = config.page_bytes.value_or(default_gpu_frame_bytes(gpu));
  frames.capacity_bytes =
      config.capacity_bytes.value_or(default_gpu_capacity(gpu.total_bytes, frames.frame_bytes));
  if (frames.frame_bytes % gpu.granularity_bytes != 0 || frames.capacity_bytes < frames.frame_bytes) {
    return fail(FailureKind::configuration,
                fmt::format("pages of {} and a capacity of {} don't suit its granularity of {}",
                            format_bytes(frames.frame_bytes), format_bytes(frames.capacity_bytes),
                            format_bytes(gpu.granularity_bytes)));
  }
  return GpuMemory{
      .frames = frames,
      .headroom = std::make_shared<GpuHeadroom>(gpu.total_bytes, config.headroom_bytes.value_or(0))};
}

Outcome<WriterProgram> open_writer(const GpuDescription& gpu) {
  const std::string path = writer_path();
  auto program =
      WriterProgram::open(path, {std::string(gpu_vendor_name(gpu.identity.vendor)), gpu.identity.id});
  if (program) return *std::move(program);
  return fail(FailureKind::device_unhealthy,
              fmt::format("{} can't be opened: {}", path, std::strerror(program.error().native)),
              "install the package whole: penstock-writer lies beside penstockd, or in "
              "libexec/penstock of the same prefix");
}

struct OpenedGpu {
  std::shared_ptr<GpuDevice> device;
  UsageFeed::Device usage;
};

Outcome<OpenedGpu> open_gpu(const std::shared_ptr<GpuDriver>& driver, const GpuMemory& memory) {
  const GpuDescription& gpu = driver->description();
  const auto refuse = [](const Error& error) {
    return fail(FailureKind::device_unhealthy, fmt::format("{} ({})", error.operation, error.native));
  };
  auto program = open_writer(gpu);
  if (!program) return tl::unexpected(program.error());
  auto owner = GpuFrameOwner::open(driver, memory.frames, memory.headroom);
  if (!owner) return refuse(owner.error());
  RemoteFillerOptions options;
  const auto notes = std::make_shared<FreeMemoryNotes>();
  // The owner outlives the filler, whose function this is.
  options.on_free_bytes = [headroom = memory.headroom, total = gpu.total_bytes, notes,
                           frame_bytes = memory.frames.frame_bytes,
                           own = owner->get()](std::uint64_t free_bytes) {
    headroom->read({.free_bytes = free_bytes, .total_bytes = total});
    notes->note(free_bytes, frame_bytes_of(own->stats(), frame_bytes));
  };
  options.on_line = [id = gpu.identity.id](std::string_view line) {
    spdlog::warn("device {}: its writer says: {}", id, line);
  };
  auto filler = RemoteFiller::open(std::move(*program), options);
  if (!filler) return refuse(filler.error());
  const WriterStats& writer = (*filler)->stats();  // Lives as long as the device.
  auto device = GpuDevice::open(std::move(*owner), std::move(*filler));
  if (!device) return refuse(device.error());
  OpenedGpu opened{.device = std::move(*device), .usage = {}};
  opened.usage = usage_input(gpu, opened.device, memory.frames.frame_bytes, writer, notes);
  return opened;
}

Outcome<DeviceSetup> start_gpu(const Config& config, const DeviceConfig& wanted,
                               const std::shared_ptr<GpuDriver>& driver, std::uint64_t frames_max,
                               const std::shared_ptr<HostTier>& tier) {
  const GpuDescription& gpu = driver->description();
  auto memory = plan_memory(gpu, wanted);
  if (!memory) return tl::unexpected(memory.error());
  auto opened = open_gpu(driver, *memory);
  if (!opened) return tl::unexpected(opened.error());
  const std::shared_ptr<GpuDevice>& device = opened->device;
  DeviceSetup setup{.id = gpu.identity.id,
                    .kind = std::string(gpu_vendor_name(gpu.identity.vendor)),
                    .thread = nullptr,
                    .limits = {},
                    .headroom_bytes = wanted.headroom_bytes.value_or(0),
                    .frames_max = frames_max / gpu.descriptors_per_frame,
                    .tier = gpu.shares_host_memory ? nullptr : tier,
                    .driver_call = device->call_watch(),
                    .usage = std::move(opened->usage)};
  // Its frames take the host's room, so the governor splits it among them, too.
  if (gpu.shares_host_memory)
    setup.host_frames = HostFrames{.frame_bytes = [frames = setup.usage->frames] { return frames().most; }};
  spdlog::info("device {}: {} at {}, {} of {} for weights", setup.id, gpu.identity.name,
               to_text(gpu.identity.pci), format_bytes(memory->frames.capacity_bytes),
               format_bytes(gpu.total_bytes));
  return start_device(config, std::move(setup),
                      {.owner = std::shared_ptr<FrameOwner>(device, &device->owner()),
                       .writer = std::shared_ptr<FrameWriter>(device, &device->writer())});
}

// All GPUs at once: each test waits for its driver most of the time.
std::vector<SharingTest> start_tests(const std::vector<std::shared_ptr<GpuDriver>>& gpus) {
  std::vector<SharingTest> tests;
  for (const std::shared_ptr<GpuDriver>& gpu : gpus) {
    const GpuDescription& about = gpu->description();
    auto program = open_writer(about);
    // What it lacks is told when the device is opened.
    if (!about.has_vmm || !program) {
      tests.emplace_back();
      continue;
    }
    program->arguments.insert(program->arguments.begin(), std::string(self_test_option));
    tests.push_back(SharingTest::start(*program));
  }
  return tests;
}

// Those of the GPUs that are worth a device. What keeps the others from it won't pass while the service runs, so they are
// no devices in quarantine, and each is said once.
std::vector<std::shared_ptr<GpuDriver>> can_share(const std::vector<std::shared_ptr<GpuDriver>>& gpus,
                                                  std::uint64_t headroom_bytes,
                                                  std::vector<CopyLedger::Gpu>& unshared) {
  std::vector<SharingTest> tests = start_tests(gpus);
  const auto end = std::chrono::steady_clock::now() + sharing_limit;
  std::vector<std::shared_ptr<GpuDriver>> kept;
  for (std::size_t at = 0; at < gpus.size(); ++at) {
    const GpuDescription& gpu = gpus[at]->description();
    const SharingAnswer answer = tests[at].finish(end, [&gpu](std::string_view line) {
      spdlog::warn("device {}: its self-test says: {}", gpu.identity.id, line);
    });
    if (gpu.has_vmm && answer.kind != SharingAnswer::Kind::cannot_share) {
      // Also one that failed otherwise: its writer tries again, and what it finds then is the device's state.
      if (!answer.why.empty())
        spdlog::warn("device {}: whether its memory can be shared is not known yet: {}", gpu.identity.id,
                     answer.why);
      kept.push_back(gpus[at]);
      continue;
    }
    unshared.push_back({.id = gpu.identity.id,
                        .kind = std::string(gpu_vendor_name(gpu.identity.vendor)),
                        .total_bytes = gpu.total_bytes,
                        .headroom_bytes = headroom_bytes});
    spdlog::warn("device {} is not used, its memory can't be shared: {}; {}", gpu.identity.id,
                 gpu.has_vmm ? answer.why : gpu.why_no_vmm, whole_copies);
  }
  return kept;
}

void say_state(const VendorReport& report, DeviceUse wanted) {
  const std::string text =
      fmt::format("{} driver: {}{}{}", gpu_vendor_name(report.vendor), vendor_state_name(report.state),
                  report.detail.empty() ? "" : ": ", report.detail);
  const bool quiet = report.state == VendorState::absent || report.state == VendorState::without_device;
  if (report.state == VendorState::usable || (quiet && wanted != DeviceUse::on)) {
    spdlog::info("{}", text);
  } else {
    spdlog::warn("{}{}{}", text, report.remedy.empty() ? "" : "; ", report.remedy);
  }
}

}  // namespace

GpuDevices start_gpu_devices(const Config& config, std::uint64_t descriptors,
                             const std::shared_ptr<HostTier>& tier) {
  GpuDevices found;
  const std::uint64_t frames_max = descriptors_for_frames(descriptors);
  for (const GpuVendor vendor : {GpuVendor::cuda, GpuVendor::hip}) {
    const DeviceConfig& wanted = vendor == GpuVendor::cuda ? config.cuda : config.hip;
    if (wanted.enabled == DeviceUse::off) continue;
    const OpenedVendor opened = open_vendor_within(vendor, driver_limit);
    say_state(opened.report, wanted.enabled);
    for (const std::shared_ptr<GpuDriver>& gpu :
         can_share(opened.gpus, wanted.headroom_bytes.value_or(0), found.unshared)) {
      auto device = start_gpu(config, wanted, gpu, frames_max, tier);
      if (device) {
        found.devices.push_back(std::move(*device));
      } else {
        const Failure& why = device.error();
        spdlog::warn("device {} is not used: {}{}{}", gpu->description().identity.id, why.message,
                     why.hint.empty() ? "" : "; ", why.hint);
      }
    }
  }
  return found;
}

}  // namespace penstock
