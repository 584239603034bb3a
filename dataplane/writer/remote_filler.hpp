// SPDX-License-Identifier: Apache-2.0
// RemoteFiller: the service's end of one device's penstock-writer. Numbers commands with fences, watches the process,
// replaces it. DESIGN.md has the states and invariants (W1 ...).
//
// Dataplane thread only, but for open and the destructor. Nothing waits, but the destructor. Commands may stay here until
// flush() or reached().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/event_fd.hpp"
#include "dataplane/base/ids.hpp"
#include "dataplane/base/result.hpp"
#include "dataplane/base/unique_fd.hpp"
#include "dataplane/device/device_memory.hpp"
#include "dataplane/writer/protocol.hpp"
#include "dataplane/writer/restart_policy.hpp"
#include "dataplane/writer/stats.hpp"
#include "dataplane/writer/writer_channel.hpp"
#include "dataplane/writer/writer_process.hpp"

namespace penstock {

struct RemoteFillerOptions {
  Nanoseconds tick = std::chrono::milliseconds(500);
  std::uint32_t stall_ticks = 20;  // Without an answer that was due.
  std::uint32_t start_ticks = 60;  // Until ready.
  RestartPolicyOptions restarts;
  std::size_t queue_depth = 256;  // Fences not reached, above which copies are refused as busy.
};

class RemoteFiller {
 public:
  // What a map is for.
  enum class Use : std::uint8_t { fill, read };  // fill: zeroed first.

  // Starts the first writer, whose `ready` comes later.
  static Result<std::unique_ptr<RemoteFiller>> open(WriterProgram program,
                                                    const RemoteFillerOptions& options);
  ~RemoteFiller();
  RemoteFiller(const RemoteFiller&) = delete;
  RemoteFiller& operator=(const RemoteFiller&) = delete;

  // Where the sources of copies lie: `memory` is a shared mapping of `fd` from its start, and outlives this object. Once.
  Result<> use_staging(std::span<const std::byte> memory, int fd);

  // All: the fence after which it is done. Errc::device: the writer is lost; Errc::closed: it is quarantined; Errc::busy
  // (copies): too much is queued; Errc::exhausted (map): no descriptor is left here.
  Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use);
  Result<FenceId> unmap(FrameId frame);
  // REQUIRES: `source` lies in the staging memory and stays as it is until the fence is reached or the writer lost.
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion);
  Result<FenceId> copy_frame(FrameId to, FrameId from);
  Result<FenceId> checksum(FrameId frame);
  void flush();

  // The newest fence reached. An error as above, at least once for each loss; what was pending then is forgotten, and the
  // next writer's answer starts above all of it.
  Result<FenceId> reached();
  int event_fd() const { return events_.get(); }  // Readable when reached() has something to do.

  // After the fence of a map: its error, once, if it failed. Then the frame may only be unmapped: a copy into it ends the
  // writer.
  std::optional<Error> take_map_failure(FenceId fence);
  // After the fence of a checksum, once.
  std::optional<std::uint64_t> take_checksum(FenceId fence);

  // Which writer takes commands now; grows with each one.
  std::uint64_t incarnation() const { return incarnation_; }
  // Leaves the quarantine, with a clean record: the next reached() starts a writer.
  void restart();
  const WriterStats& stats() const { return stats_; }

 private:
  struct QueuedCommand {
    WriterCommand command;
    UniqueFd descriptor;
  };
  struct Staging {
    std::span<const std::byte> memory;
    UniqueFd file;
  };

  RemoteFiller(WriterProgram program, const RemoteFillerOptions& options, UniqueFd events, UniqueFd timer,
               EventFd wake);
  Result<> watch(int fd, std::uint32_t what, int operation) const;
  Result<> refusal() const;
  Result<> refuse_when_full() const;
  Result<FenceId> queue(WriterCommand command, UniqueFd descriptor = {});
  void send_stage();
  bool send_some();
  void want_writable(bool wanted);

  void take_answers();
  Result<> take(const WriterAnswer& answer);
  void tick();
  bool idle() const { return commands_.empty() && reached_ == newest_; }
  void lose(WriterLoss why, std::int32_t detail);
  void look_at_process();
  void start();
  void set_state(WriterState state);

  const WriterProgram program_;
  const RemoteFillerOptions options_;
  const UniqueFd events_;  // epoll: socket, pidfd, timer, wake.
  const UniqueFd timer_;
  const EventFd wake_;
  Staging staging_;

  std::optional<WriterProcess> process_;  // Started and not reaped.
  WriterChannel channel_;
  bool wants_writable_ = false;
  std::uint64_t incarnation_ = 0;

  std::deque<QueuedCommand> commands_;               // Not sent; bounded by queue_depth and the frames alive.
  FenceId newest_{}, reached_{}, told_{};            // told_: to the caller.
  std::unordered_map<FenceId, Error> map_failures_;  // Of this writer.
  std::unordered_map<FenceId, std::uint64_t> checksums_;

  WriterState state_ = WriterState::lost;
  RestartPolicy policy_;
  std::uint64_t ticks_ = 0;
  std::uint64_t restart_at_ = 0;  // Tick; while lost.
  std::uint32_t age_ticks_ = 0, stuck_ticks_ = 0, silent_ticks_ = 0;
  bool ping_open_ = false;
  bool loss_untold_ = false;
  WriterStats stats_;
};

}  // namespace penstock
