// SPDX-License-Identifier: Apache-2.0
// E2, E8 to E11: what the driver forbids, and with which number it says so.
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "dataplane/device/cuda/cuda_table.hpp"
#include "dataplane/kernels/device_code.hpp"
#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/peer.hpp"

namespace penstock::gpu_check {
namespace {

constexpr std::uint64_t seed = 11;
constexpr std::uint64_t could_not = 1'000'000, wrote = 1'000'001;

std::string named(DriverCode code) {
  return fmt::format("{} {}", code.native, driver_code_name(code.native));
}

// Writes through a read-only mapping: by the copy engine, or by a kernel.
DriverCode stray_write(Gpu& gpu, const Frame& frame, bool by_kernel) {
  DriverContext& context = gpu.context();
  const std::vector<std::byte> bytes(64 * 1024, std::byte{0x55});
  if (!by_kernel) {
    const DriverCode queued = context.copy_in(frame.at(), bytes.data(), bytes.size(), gpu.stream());
    return queued.ok() ? context.synchronize(gpu.stream()) : queued;
  }
  void* memory = nullptr;
  DeviceAddress list{};
  const DriverCode made = context.allocate_host(sizeof(ScatterPiece), memory);
  if (!made.ok()) return made;
  const DriverCode placed = context.device_address(memory, list);
  if (!placed.ok()) return placed;
  // From the frame's own second half.
  *static_cast<ScatterPiece*>(memory) = {.source = static_cast<std::uint64_t>(frame.at() + frame.bytes() / 2),
                                         .destination = static_cast<std::uint64_t>(frame.at()),
                                         .elements = 4096,
                                         .scale = 1,
                                         .stored = ElementKind::bytes,
                                         .wanted = ElementKind::bytes,
                                         .zero = 0};
  const DriverCode launched = context.launch_scatter(list, 1, gpu.stream());
  return launched.ok() ? context.synchronize(gpu.stream()) : launched;
}

// Answers what its stray write was answered.
void trespasser(const Channel& channel, bool by_kernel) {
  const std::optional<Message> message = channel.receive();
  if (!message || !message->fd) return;
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  if (by_kernel && !gpu->context().load_kernels().ok()) {
    channel.send(could_not);
    return;
  }
  gpu->context();
  Frame frame(gpu->driver());
  if (!frame.import_mapped(message->fd.get(), MappedRights::read).ok()) return;
  const DriverCode code = stray_write(*gpu, frame, by_kernel);
  channel.send(code.ok() ? wrote : static_cast<std::uint64_t>(code.native));
  channel.receive();
}

}  // namespace

void read_only_mapping(Report& report) {
  const Peer by_copy([](const Channel& channel) { trespasser(channel, false); });
  const Peer by_kernel([](const Channel& channel) { trespasser(channel, true); });
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  Frame frame(gpu->driver());
  UniqueFd fd;
  if (!report.expect(frame.make_mapped().ok() && fill(*gpu, frame, seed) && frame.export_fd(fd).ok(),
                     "a frame is made, filled and exported"))
    return;
  for (const auto& [name, peer] : {std::pair{"copy", &by_copy}, std::pair{"kernel", &by_kernel}}) {
    const std::uint64_t answer = peer->ask(1, fd.get());
    if (answer == could_not) {
      report.skip_part(name, "requires device code for this GPU");
      continue;
    }
    report.expect(answer != wrote, fmt::format("a {} can't write through a read-only mapping", name));
    report.figure(
        fmt::format("{}_code", name),
        answer == 0 ? "the process died" : named({.native = static_cast<std::int32_t>(answer), .call = ""}));
  }
  report.expect(holds(*gpu, frame, seed), "stray writes change nothing");
  report.expect(fill(*gpu, frame, seed + 1) && holds(*gpu, frame, seed + 1),
                "the owner's context works on after another process's stray writes");
}

void descriptor_limit(Report& report) {
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  gpu->context();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{.rlim_cur = 128, .rlim_max = before.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &tight) != 0) return report.skip("requires setrlimit(RLIMIT_NOFILE)");
  const std::uint64_t bytes = gpu->driver().description().granularity_bytes;
  std::deque<Frame> frames;
  std::vector<UniqueFd> fds;
  DriverCode made, exported;
  while (frames.size() < 256 && made.ok() && exported.ok()) {
    UniqueFd fd;
    made = frames.emplace_back(gpu->driver(), bytes).make();
    if (made.ok()) exported = frames.back().export_fd(fd);
    if (exported.ok()) fds.push_back(std::move(fd));
  }
  Frame another(gpu->driver(), bytes);
  const DriverCode imported = fds.empty() ? made : another.import(fds.front().get());
  another.give_back();
  ::setrlimit(RLIMIT_NOFILE, &before);
  report.figure("limit", std::uint64_t{tight.rlim_cur});
  report.figure("exported", fds.size());
  report.figure("create_code", named(made));
  report.figure("export_code", named(exported));
  report.figure("import_at_limit_code", named(imported));
  report.expect(!made.ok() || !exported.ok(), "a lack of descriptors is refused");
  frames.clear();
  fds.clear();
  Frame after(gpu->driver(), bytes);
  UniqueFd fd;
  report.expect(after.make().ok() && after.export_fd(fd).ok(), "it works again once descriptors are there");
}

void mapping_rules(Report& report) {
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  GpuDriver& driver = gpu->driver();
  const std::uint64_t bytes = scale().frame_bytes;
  Frame first(driver), second(driver);
  report.expect(first.make_mapped().ok() && second.make().ok() && fill(*gpu, first, seed), "frames are made");
  MemoryHandle again{};
  UniqueFd fd;
  const bool shared = second.export_fd(fd).ok() && driver.import_fd(fd.get(), again).ok();
  const DriverCode over = shared ? driver.map(first.at(), bytes, again) : DriverCode{};
  report.figure("map_over_mapped_code", named(over));
  report.expect(shared && !over.ok(), "a range that is mapped can't be mapped again");
  const DriverCode half = driver.unmap(first.at(), bytes / 2);
  report.figure("unmap_half_code", named(half));
  report.expect(!half.ok(), "half of a mapping can't be unmapped");
  report.expect(holds(*gpu, first, seed), "refused calls change nothing");
  if (shared) report.expect(driver.release(again).ok(), "an import is released");
}

void imported_twice(Report& report) {
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  gpu->context();
  const std::uint64_t before = gpu->free_bytes();
  {
    Frame made(gpu->driver()), one(gpu->driver()), two(gpu->driver());
    UniqueFd fd;
    report.expect(made.make().ok() && made.export_fd(fd).ok(), "a frame is exported");
    const double first_us =
        seconds_of([&] { report.expect(one.import(fd.get()).ok(), "it is imported"); }) * 1e6;
    const double second_us =
        seconds_of([&] { report.expect(two.import(fd.get()).ok(), "it is imported twice"); }) * 1e6;
    report.figure("first_import_us", first_us);
    report.figure("second_import_us", second_us);
    report.expect(one.map(MappedRights::read_write).ok() && two.map(MappedRights::read).ok() &&
                      fill(*gpu, one, seed) && holds(*gpu, two, seed),
                  "both mappings show the same bytes");
    report.figure("taken_bytes", before - gpu->free_bytes());
    one.give_back();
    report.expect(holds(*gpu, two, seed), "the end of one import leaves the other");
  }
  report.expect(gpu->seconds_until_free(before - scale().frame_bytes / 2) >= 0,
                "the memory comes back when both are released");
}

void exclusive_process(Report& report) {
  if (scale().vendor != GpuVendor::cuda)
    return report.skip("requires an NVIDIA GPU: compute modes are CUDA's");
  const Peer holder([](const Channel& channel) {
    if (!channel.receive()) return;
    std::optional<Gpu> gpu = Gpu::open();
    if (!gpu) return;
    gpu->context();
    channel.send(1);
    channel.receive();
  });
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  const LoadedCuda cuda = load_cuda();
  constexpr int attribute_compute_mode = 20, mode_exclusive = 3;
  int mode = -1;
  if (cuda.table.device_get_attribute(&mode, static_cast<CudaDeviceAttribute>(attribute_compute_mode), 0) !=
      0)
    return report.skip("requires the attribute COMPUTE_MODE");
  report.figure("compute_mode", mode);
  if (std::getenv("CUDA_MPS_PIPE_DIRECTORY") == nullptr)
    report.skip_part("MPS client", "requires a running MPS server (CUDA_MPS_PIPE_DIRECTORY)");
  // A setting of the machine, which its operator changes and nobody else.
  if (mode != mode_exclusive) return report.skip("requires compute mode EXCLUSIVE_PROCESS");
  report.expect(holder.ask(1) == 1, "one process gets a context");
  Frame frame(gpu->driver());
  UniqueFd fd;
  report.expect(frame.make().ok() && frame.export_fd(fd).ok(),
                "without a context frames are made beside a process that has the GPU exclusively");
}

}  // namespace penstock::gpu_check
