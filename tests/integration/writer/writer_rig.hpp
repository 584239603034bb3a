// SPDX-License-Identifier: Apache-2.0
// A device whose writer is killed, stopped and replaced, and the test in the place of the pager.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include <sys/types.h>

#include "tests/support/fixed_headroom.hpp"
#include "tests/support/remote_host_device.hpp"

namespace penstock::test {

std::size_t open_descriptors();
// Less frames, which come and go in the background.
std::size_t descriptors_but_frames();
// Processes that this one started and has not collected.
std::set<pid_t> children();
// How many mappings with this word in their name a process has.
std::size_t mappings(pid_t pid, const std::string& word);

class WriterRig {
 public:
  // Ticks are short, so that a watchdog of 20 of them bites after 200 ms.
  static RemoteFillerOptions quick();
  explicit WriterRig(const RemoteFillerOptions& options = quick());

  static constexpr std::uint64_t frame_bytes = 256 * 1024;

  RemoteFrameWriter& writer() { return device.writer(); }
  const WriterStats& stats() { return device.stats(); }
  pid_t pid() { return stats().pid; }
  // Sends a signal to the present writer.
  void signal(int number);
  // Its process has ended, whether collected or not.
  void wait_until_gone(pid_t writer);

  // And the service knows.
  void wait_until_collected();

  FrameId make_attached();
  std::vector<std::byte> pattern(std::uint64_t seed) const;
  // Fills the frame and waits for the fence.
  bool fill(FrameId frame, std::uint64_t seed);
  std::vector<std::byte> content(FrameId frame);
  // As the core does after a loss.
  void destroy(FrameId frame);

  // Polls until reached() says that the writer is lost, and its code.
  Errc wait_for_loss();
  // Polls until another writer is ready.
  bool wait_until_ready();

  FixedHeadroom headroom;
  RemoteHostDevice device;
};

}  // namespace penstock::test
