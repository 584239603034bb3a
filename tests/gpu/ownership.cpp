// SPDX-License-Identifier: Apache-2.0
// E1, E3, E4, E12: who may own memory, and what lives on when somebody dies.
#include <vector>

#include "tests/gpu/experiments.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/peer.hpp"

namespace penstock::gpu_check {
namespace {

constexpr std::uint64_t seed = 7;
constexpr std::uint64_t failed = 0, well = 1, wrong = 2;

// Answers each message with the device's free bytes, seen from a context of its own.
void meter(const Channel& channel) {
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  while (channel.receive()) channel.send(gpu->free_bytes());
}

// At the first message: makes a frame, fills it, and sends its descriptor. Then it holds the frame until its end.
void owner(const Channel& channel) {
  if (!channel.receive()) return;
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  Frame frame(gpu->driver());
  UniqueFd fd;
  const bool made = frame.make_mapped().ok() && fill(*gpu, frame, seed) && frame.export_fd(fd).ok();
  channel.send(made ? well : failed, fd.get());
  channel.receive();
}

// Whether the frame of each descriptor that comes holds the pattern. Keeps the last one mapped.
void importer(const Channel& channel) {
  std::optional<Message> message = channel.receive();
  if (!message) return;
  std::optional<Gpu> gpu = Gpu::open();
  if (!gpu) return;
  std::vector<Frame> frames;
  for (; message; message = channel.receive()) {
    frames.clear();
    Frame& frame = frames.emplace_back(gpu->driver());
    const bool mapped = message->fd && frame.import_mapped(message->fd.get(), MappedRights::read).ok();
    message->fd.reset();
    channel.send(!mapped ? failed : holds(*gpu, frame, seed) ? well : wrong);
  }
}

// Knows no driver: holds the descriptor, and gives it back when asked.
void keeper(const Channel& channel) {
  std::optional<Message> message = channel.receive();
  if (!message) return;
  channel.send(well);
  channel.receive();
  channel.send(well, message->fd.get());
}

}  // namespace

void context_free_owner(Report& report) {
  const Peer watcher(meter);
  const std::uint64_t before = watcher.ask(1);
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  if (!report.expect(before > 0, "another process can read the device's free bytes")) return;
  const std::uint64_t initialised = watcher.ask(1);
  constexpr std::uint64_t count = 8;
  std::vector<Frame> frames;
  std::vector<UniqueFd> fds(count);
  bool all = true;
  std::vector<double> create_us, export_us;
  for (UniqueFd& fd : fds) {
    Frame& frame = frames.emplace_back(gpu->driver());
    create_us.push_back(seconds_of([&] { all = frame.make().ok() && all; }) * 1e6);
    export_us.push_back(seconds_of([&] { all = frame.export_fd(fd).ok() && all; }) * 1e6);
  }
  const std::uint64_t holding = watcher.ask(1);
  report.expect(all, "frames are made and exported without a context");
  frames.clear();
  fds.clear();
  const std::uint64_t after = watcher.ask(1);
  const auto taken = [](std::uint64_t from, std::uint64_t to) {
    return static_cast<std::int64_t>(from) - static_cast<std::int64_t>(to);
  };
  report.figure("initialised_cost_bytes", taken(before, initialised));
  report.figure("made_bytes", count * scale().frame_bytes);
  report.figure("held_bytes", taken(initialised, holding));
  report.figure("left_bytes", taken(initialised, after));
  report.figure("create_us", spread_of(create_us).p50);
  report.figure("export_us", spread_of(export_us).p50);
  report.expect(holding < initialised, "frames of a process without a context take device memory");
  const double context_s = seconds_of([&] { gpu->context(); });
  report.figure("context_ms", context_s * 1e3);
  report.figure("context_cost_bytes", taken(after, watcher.ask(1)));
}

void owner_killed(Report& report) {
  Peer making(owner), importing(importer);
  making.channel().send(1);
  std::optional<Message> made = making.channel().receive();
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  if (!report.expect(made && made->value == well && made->fd, "an owner makes and exports a frame")) return;
  Frame frame(gpu->driver());
  report.expect(frame.import_mapped(made->fd.get(), MappedRights::read).ok() && holds(*gpu, frame, seed),
                "an importer sees the owner's bytes");
  making.kill();
  report.expect(holds(*gpu, frame, seed), "an importer reads on after the owner was killed");
  report.expect(importing.ask(1, made->fd.get()) == well, "what a dead owner exported can still be imported");
  frame.give_back();
  made->fd.reset();
  // Now the other importer's mapping alone keeps it.
  const std::uint64_t held = gpu->free_bytes();
  report.expect(importing.ask(1) == failed, "no descriptor, no import");
  const double returned = gpu->seconds_until_free(held + scale().frame_bytes / 2);
  report.figure("returned_after_unmap_ms", returned * 1e3);
  report.expect(returned >= 0, "memory comes back when its last mapping is gone");
}

void descriptor_kept_by_third(Report& report) {
  Peer making(owner), keeping(keeper), importing(importer);
  making.channel().send(1);
  std::optional<Message> made = making.channel().receive();
  if (!made || made->value != well) {
    if (Gpu::open(report)) report.expect(false, "an owner makes and exports a frame");
    return;
  }
  keeping.ask(1, made->fd.get());
  made->fd.reset();
  making.kill();
  keeping.channel().send(1);
  const std::optional<Message> back = keeping.channel().receive();
  report.expect(back && back->fd && importing.ask(1, back->fd.get()) == well,
                "a descriptor in a process without a driver keeps the bytes of a dead owner");
}

void unreceived_descriptor(Report& report) {
  Peer making(owner);
  making.channel().send(1);
  std::optional<Gpu> gpu = Gpu::open(report);
  if (!gpu) return;
  // The second message lets it end once it has answered the first.
  making.channel().send(1);
  report.expect(making.ended_well(), "an owner sends a descriptor and ends");
  Frame frame(gpu->driver());
  const std::optional<Message> late = making.channel().receive();
  report.expect(late && late->fd && frame.import_mapped(late->fd.get(), MappedRights::read).ok() &&
                    holds(*gpu, frame, seed),
                "a descriptor that nobody has received keeps the bytes of an owner that has ended");
}

}  // namespace penstock::gpu_check
