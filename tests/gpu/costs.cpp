// SPDX-License-Identifier: Apache-2.0
// E6 and E7: what driver calls cost, alone, by the run, beside other processes, and under a running kernel.
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "dataplane/kernels/device_code.hpp"
#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/peer.hpp"

namespace penstock::gpu_check {
namespace {

// The calls of one page's life, each timed on its own.
struct PageLife {
  std::vector<double> create, give, take, reserve, map, access, unmap, release;

  bool live(GpuDriver& driver, std::uint64_t bytes) {
    bool all = true;
    const auto timed = [&](std::vector<double>& times, const auto& call) {
      times.push_back(seconds_of([&] { all = call().ok() && all; }) * 1e6);
    };
    MemoryHandle made{}, imported{};
    UniqueFd fd;
    DeviceAddress at{};
    timed(create, [&] { return driver.create(bytes, made); });
    timed(give, [&] { return driver.export_fd(made, fd); });
    timed(take, [&] { return driver.import_fd(fd.get(), imported); });
    timed(reserve, [&] { return driver.reserve(bytes, natural_alignment(bytes), at); });
    timed(map, [&] { return driver.map(at, bytes, imported); });
    timed(access, [&] { return driver.set_access(at, bytes, MappedRights::read); });
    timed(unmap, [&] { return driver.unmap(at, bytes); });
    all = driver.release(imported).ok() && all;
    fd.reset();
    timed(release, [&] { return driver.release(made); });
    return driver.free_range(at, bytes).ok() && all;
  }
};

void page_costs(Report& report, GpuDriver& driver, std::uint64_t mebibytes) {
  PageLife life;
  bool all = true;
  for (std::uint64_t round = 0; round < scale().repeats && all; ++round)
    all = life.live(driver, mebibytes << 20);
  report.expect(all, fmt::format("pages of {} MiB live and end", mebibytes));
  for (const auto& [name, times] :
       {std::pair{"create", &life.create}, std::pair{"export", &life.give}, std::pair{"import", &life.take},
        std::pair{"reserve", &life.reserve}, std::pair{"map", &life.map}, std::pair{"access", &life.access},
        std::pair{"unmap", &life.unmap}, std::pair{"release", &life.release}}) {
    const Spread spread = spread_of(*times);
    report.figure(fmt::format("{}MiB_{}_us_p50", mebibytes, name), spread.p50);
    report.figure(fmt::format("{}MiB_{}_us_p99", mebibytes, name), spread.p99);
  }
}

// One range of many pages: access set page by page, or by one call.
double run_access_us(GpuDriver& driver, bool by_page, bool& all) {
  const std::uint64_t bytes = scale().frame_bytes, count = scale().frames;
  DeviceAddress at{};
  all = driver.reserve(count * bytes, natural_alignment(bytes), at).ok() && all;
  std::vector<MemoryHandle> handles(count);
  for (std::uint64_t page = 0; page < count; ++page)
    all = driver.create(bytes, handles[page]).ok() &&
          driver.map(at + page * bytes, bytes, handles[page]).ok() && all;
  const double seconds = seconds_of([&] {
    const std::uint64_t step = by_page ? bytes : count * bytes;
    for (std::uint64_t done = 0; done < count * bytes; done += step)
      all = driver.set_access(at + done, step, MappedRights::read).ok() && all;
  });
  for (std::uint64_t page = 0; page < count; ++page)
    all = driver.unmap(at + page * bytes, bytes).ok() && driver.release(handles[page]).ok() && all;
  all = driver.free_range(at, count * bytes).ok() && all;
  return seconds * 1e6;
}

// At the second message: makes, maps and unmaps frames as fast as it can.
void busy_process(const Channel& channel) {
  if (!channel.receive()) return;
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  channel.send(1);
  if (!channel.receive()) return;
  bool all = true;
  std::deque<Frame> frames;
  for (std::uint64_t at = 0; at < scale().frames && all; ++at)
    all = frames.emplace_back(gpu->driver()).make_mapped().ok();
  frames.clear();
  channel.send(all ? 1 : 2);
}

double together_seconds(const std::vector<std::unique_ptr<Peer>>& peers, std::size_t count, bool& all) {
  for (std::size_t at = 0; at < count; ++at) all = peers[at]->ask(1) == 1 && all;
  return seconds_of([&] {
    for (std::size_t at = 0; at < count; ++at) peers[at]->channel().send(1);
    for (std::size_t at = 0; at < count; ++at) all = peers[at]->channel().value() == 1 && all;
  });
}

// Kernels that copy one frame to the other, again and again: launches of some milliseconds, so that none of them waits
// to be queued. Copies of the driver where there is no device code. The lists are left to the end of the process.
DriverCode queue_work(Gpu& gpu, const Frame& to, const Frame& from) {
  DriverContext& context = gpu.context();
  const int launches = scale().is_small ? 4 : 300;
  DriverCode code;
  if (!context.load_kernels().ok()) {
    for (int at = 0; at < launches && code.ok(); ++at)
      code = context.copy_within(to.at(), from.at(), to.bytes(), gpu.stream());
    return code;
  }
  std::vector<ScatterPiece> pieces;
  for (int repeat = 0; repeat < (scale().is_small ? 1 : 64); ++repeat)
    cut_pieces({.source = static_cast<std::uint64_t>(from.at()),
                .destination = static_cast<std::uint64_t>(to.at()),
                .elements = to.bytes(),
                .scale = 1,
                .stored = ElementKind::bytes,
                .wanted = ElementKind::bytes,
                .zero = 0},
               pieces);
  void* memory = nullptr;
  DeviceAddress list{};
  code = context.allocate_host(pieces.size() * sizeof(ScatterPiece), memory);
  if (!code.ok()) return code;
  std::memcpy(memory, pieces.data(), pieces.size() * sizeof(ScatterPiece));
  code = context.device_address(memory, list);
  for (int at = 0; at < launches && code.ok(); ++at)
    code = context.launch_scatter(list, static_cast<std::uint32_t>(pieces.size()), gpu.stream());
  return code;
}

// Unmaps what its own work uses. Answers how long that took, and what the work ended with.
void saws_its_branch(const Channel& channel) {
  if (!channel.receive()) return;
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  Frame to(gpu->driver()), from(gpu->driver());
  if (!to.make_mapped().ok() || !from.make_mapped().ok() || !queue_work(*gpu, to, from).ok()) return;
  DriverCode unmapped;
  const double seconds = seconds_of([&] { unmapped = from.unmap(); });
  channel.send(static_cast<std::uint64_t>(seconds * 1e6) + 1);
  channel.send(static_cast<std::uint64_t>(unmapped.native) + 1);
  channel.send(static_cast<std::uint64_t>(gpu->context().synchronize(gpu->stream()).native) + 1);
}

}  // namespace

void call_costs(Report& report) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (int at = 0; at < 7; ++at) peers.push_back(std::make_unique<Peer>(busy_process));
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  gpu->context();
  for (const std::uint64_t mebibytes : {2, 32, 64}) page_costs(report, gpu->driver(), mebibytes);
  bool all = true;
  report.figure("run_pages", scale().frames);
  report.figure("run_access_by_page_us", run_access_us(gpu->driver(), true, all));
  report.figure("run_access_at_once_us", run_access_us(gpu->driver(), false, all));
  for (const std::size_t count : {1, 2, 4}) {
    report.figure(fmt::format("processes_{}_ms", count), together_seconds(peers, count, all) * 1e3);
    peers.erase(peers.begin(), peers.begin() + static_cast<std::ptrdiff_t>(count));
  }
  report.expect(all, "runs and processes side by side end well");
}

void unmap_under_kernel(Report& report) {
  const Peer sawing(saws_its_branch);
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  {
    Frame to(gpu->driver()), from(gpu->driver()), other(gpu->driver());
    report.expect(to.make_mapped().ok() && from.make_mapped().ok() && other.make_mapped().ok(),
                  "frames are made");
    double unmap_s = 0, queue_s = 0;
    const double work_s = seconds_of([&] {
      queue_s = seconds_of([&] { report.expect(queue_work(*gpu, to, from).ok(), "work is queued"); });
      unmap_s = seconds_of([&] { report.expect(other.unmap().ok(), "an unused frame is unmapped"); });
      report.expect(gpu->context().synchronize(gpu->stream()).ok(), "the work ends well");
    });
    report.figure("work_ms", work_s * 1e3);
    report.figure("queue_ms", queue_s * 1e3);
    report.figure("unmap_unused_ms", unmap_s * 1e3);
    // Ran to the end of the work, or not.
    report.figure("unmap_unused_waits", !scale().is_small && unmap_s > (work_s - queue_s) / 2);
  }
  const std::uint64_t microseconds = sawing.ask(1);
  if (microseconds == 0) return report.figure("unmap_used", "the process died");
  report.figure("unmap_used_ms", static_cast<double>(microseconds - 1) / 1e3);
  for (const char* const name : {"unmap_used_code", "work_after_unmap_code"}) {
    const std::uint64_t answer = sawing.channel().value();
    report.figure(name, answer == 0 ? std::string_view("the process died")
                                    : driver_code_name(static_cast<std::int32_t>(answer - 1)));
  }
}

}  // namespace penstock::gpu_check
