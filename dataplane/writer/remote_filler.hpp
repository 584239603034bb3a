// SPDX-License-Identifier: Apache-2.0
// RemoteFiller: the service's end of one device's penstock-writer. Numbers commands with fences, watches the process,
// replaces it. DESIGN.md has the states and invariants (W1 ...).
//
// Dataplane thread only, but for open and the destructor. Nothing waits, but the destructor. Commands may stay here until
// flush() or reached().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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
#include "dataplane/device/gpu/frame_filler.hpp"
#include "dataplane/writer/process_lines.hpp"
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
  // For a process that gave up to end by itself, so that it says why; then it is killed.
  std::uint32_t farewell_ticks = 4;
  std::uint32_t end_ticks =
      20;  // For one that was killed; then the device is in quarantine until it has ended.
  RestartPolicyOptions restarts;
  // A quarantine ends by itself after so long, for one writer; each that fails too doubles it. 0: only by restart().
  std::uint64_t retry_ticks = 20, retry_ticks_most = 600;
  std::size_t queue_depth = 256;  // Fences not reached, above which copies are refused as busy.
  // Told what the writer sees of the device's free memory, about once a tick. Dataplane thread.
  std::function<void(std::uint64_t free_bytes)> on_free_bytes{};
  // Told each line that the process writes to its standard error, which is the service's own otherwise. Dataplane thread,
  // or the one of the destructor.
  ProcessLines::Say on_line{};
};

class RemoteFiller final : public FrameFiller {
 public:
  // Starts the first writer, whose `ready` comes later.
  static Result<std::unique_ptr<RemoteFiller>> open(WriterProgram program,
                                                    const RemoteFillerOptions& options);
  ~RemoteFiller() override;
  // Of all: Errc::exhausted, from map and use_staging, when no descriptor is left here. `memory` is only compared with.
  Result<> use_staging(std::span<std::byte> memory, int fd) override;
  // `fd` is borrowed until drop_source: a writer that is started later is told of the source when it is first copied from.
  Result<FenceId> add_source(SourceId source, std::span<std::byte> memory, int fd) override;
  // Fence 0 when no writer has it.
  Result<FenceId> drop_source(SourceId source) override;
  Result<FenceId> map(FrameId frame, int fd, std::uint64_t bytes, Use use) override;
  std::optional<Error> take_map_failure(FenceId fence) override;
  std::optional<Error> take_copy_failure(FenceId fence) override;
  Result<FenceId> unmap(FrameId frame) override;
  Result<FenceId> copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                       const CopyConversion& conversion) override;
  Result<FenceId> copy_frame(FrameId to, FrameId from) override;
  void flush() override;
  Result<FenceId> reached() override;
  int event_fd() const override { return events_.get(); }
  std::uint64_t incarnation() const override { return incarnation_; }

  Result<FenceId> checksum(FrameId frame) override;
  std::optional<Result<std::uint64_t>> take_checksum(FenceId fence) override;

  // Leaves the quarantine, with a clean record: the next reached() starts a writer.
  void restart();
  const WriterStats& stats() const { return stats_; }

 private:
  struct QueuedCommand {
    WriterCommand command;
    UniqueFd descriptor;
  };
  struct StagingMemory {
    std::span<const std::byte> memory;
    UniqueFd file;
  };

  struct Source {
    SourceId id{};
    std::uint64_t bytes = 0;
    int fd = -1;
    std::uint64_t told_to = 0;  // Incarnation.
  };
  struct Place {
    SourceId source{};
    std::uint64_t offset = 0;
  };

  RemoteFiller(WriterProgram program, const RemoteFillerOptions& options, UniqueFd events, UniqueFd timer,
               EventFd wake);
  Result<> watch(int fd, std::uint32_t what, int operation) const;
  bool running() const { return state_ == WriterState::starting || state_ == WriterState::ready; }
  Result<> refusal() const;
  Result<> refuse_when_full() const;
  Result<FenceId> queue(WriterCommand command, UniqueFd descriptor = {});
  void send_stage();
  Result<FenceId> tell(Source& source);
  Result<Place> place_of(std::span<const std::byte> source);
  bool send_some();
  void want_writable(bool wanted);

  void take_answers();
  Result<> take(const WriterAnswer& answer);
  void tick();
  bool idle() const { return commands_.empty() && reached_ == newest_; }
  void lose(WriterLoss why, std::int32_t detail);
  void begin_quarantine();
  void look_at_process();
  void start();
  void set_state(WriterState state);
  void take_free_bytes(std::uint64_t bytes);

  const WriterProgram program_;
  const RemoteFillerOptions options_;
  const UniqueFd events_;  // epoll: socket, pidfd, timer, wake, lines.
  const UniqueFd timer_;
  const EventFd wake_;
  StagingMemory staging_;
  std::map<const std::byte*, Source> sources_;  // By their beginnings.

  std::optional<WriterProcess> process_;  // Started and not reaped.
  ProcessLines lines_;                    // Of the last process.
  WriterChannel channel_;
  bool wants_writable_ = false;
  std::uint64_t incarnation_ = 0;

  std::deque<QueuedCommand> commands_;     // Not sent; bounded by queue_depth and the frames alive.
  FenceId newest_{}, reached_{}, told_{};  // told_: to the caller.
  std::unordered_map<FenceId, Error> map_failures_, copy_failures_;  // Of this writer.
  std::unordered_map<FenceId, Result<std::uint64_t>> checksums_;

  WriterState state_ = WriterState::lost;
  RestartPolicy policy_;
  std::uint64_t ticks_ = 0;
  std::uint64_t restart_at_ = 0;  // Tick; while lost, or quarantined.
  std::uint64_t retry_wait_ = 0;  // Ticks; of the quarantine after the next failure.
  std::uint64_t kill_at_ = 0;     // Tick; of a process that gave up and is still there.
  std::uint32_t age_ticks_ = 0, stuck_ticks_ = 0, silent_ticks_ = 0;
  bool ping_open_ = false;
  bool loss_untold_ = false;
  WriterStats stats_;
};

}  // namespace penstock
