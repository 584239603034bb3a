// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/writer/writer_rig.hpp"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"
#include "dataplane/base/mapping.hpp"
#include "tests/support/drive_device.hpp"

namespace penstock::test {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t descriptors_but_frames() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // A frame may be closed meanwhile.
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.find("penstock-frame") == std::string::npos) ++count;
  }
  return count;
}

std::set<pid_t> children() {
  std::set<pid_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid = 0; list >> pid;) found.insert(pid);
  }
  return found;
}

std::size_t mappings(pid_t pid, const std::string& word) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(word) != std::string::npos ? 1 : 0;
  return count;
}

RemoteFillerOptions WriterRig::quick() {
  return {.tick = std::chrono::milliseconds(10),
          .stall_ticks = 20,
          .start_ticks = 1000,
          .farewell_ticks = 1000,
          .restarts = {.deaths_max = 5, .window_ticks = 6000, .back_off_ticks = 1},
          .retry_ticks = 0};
}

WriterRig::WriterRig(const RemoteFillerOptions& options)
    : device({.frame_bytes = frame_bytes,
              .capacity_bytes = 16 * frame_bytes,
              .ready_pool_frames = 2,
              .pages = HostPages::small},
             headroom, options) {
  device.make_staging(8 * frame_bytes);
}

void WriterRig::signal(int number) { CHECK(::kill(pid(), number) == 0); }

void WriterRig::wait_until_gone(pid_t writer) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, writer, 0)));
  CHECK(!pidfd || wait_readable(pidfd.get()));
}

void WriterRig::wait_until_collected() {
  while (pid() != 0) {
    CHECK(wait_readable(writer().event_fd()));
    (void)writer().reached();
  }
}

FrameId WriterRig::make_attached() {
  const std::optional<FrameId> frame = make_frame(device.owner());
  CHECK(frame.has_value());
  CHECK(writer().attach(*frame).has_value());
  return *frame;
}

std::vector<std::byte> WriterRig::pattern(std::uint64_t seed) const {
  std::vector<std::byte> bytes(frame_bytes);
  std::mt19937_64 random(seed);
  for (std::uint64_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  return bytes;
}

bool WriterRig::fill(FrameId frame, std::uint64_t seed) {
  const Result<FenceId> fence = writer().copy(frame, 0, device.stage(pattern(seed)), {});
  return fence && wait_reached(writer(), *fence);
}

std::vector<std::byte> WriterRig::content(FrameId frame) {
  const Result<ExportedFrame> shared = device.owner().share(frame, FrameAccess::shared_read_only);
  CHECK(shared.has_value());
  const Result<Mapping> mapping = Mapping::shared(shared->get(), frame_bytes, Access::read);
  CHECK(mapping.has_value());
  return {mapping->bytes().begin(), mapping->bytes().end()};
}

void WriterRig::destroy(FrameId frame) { device.owner().destroy(frame); }

Errc WriterRig::wait_for_loss() {
  while (true) {
    const Result<FenceId> reached = writer().reached();
    if (!reached) return reached.error().code;
    CHECK(wait_readable(writer().event_fd()));
  }
}

bool WriterRig::wait_until_ready() {
  while (stats().state != WriterState::ready) {
    const Result<FenceId> reached = writer().reached();
    if (!reached && reached.error().code == Errc::closed) return false;
    if (!wait_readable(writer().event_fd())) return false;
  }
  return true;
}

}  // namespace penstock::test
