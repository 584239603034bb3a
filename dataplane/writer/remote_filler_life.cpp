// SPDX-License-Identifier: Apache-2.0
// RemoteFiller, second half: the life of the process.
#include <algorithm>
#include <utility>

#include <sys/epoll.h>

#include "dataplane/base/check.hpp"
#include "dataplane/writer/remote_filler.hpp"

namespace penstock {
namespace {

constexpr int goodbye_ms = 2'000;  // For a process that was told to end, and again for one that was killed.

}  // namespace

RemoteFiller::~RemoteFiller() {
  channel_ = WriterChannel();
  if (process_ && !process_->reap_within(goodbye_ms)) {
    process_->kill();
    // One that the kernel holds is left behind.
    (void)process_->reap_within(goodbye_ms);
  }
  lines_.close(options_.on_line);
}

void RemoteFiller::set_state(WriterState state) {
  state_ = state;
  stats_.state = state;
}

void RemoteFiller::start() {
  CHECK(!process_);
  ++incarnation_;
  ++stats_.starts;
  reached_ = newest_;
  age_ticks_ = stuck_ticks_ = silent_ticks_ = 0;
  ping_open_ = false;
  set_state(WriterState::starting);
  auto ends = WriterChannel::make_pair();
  if (!ends) return lose(WriterLoss::unstarted, ends.error().native);
  UniqueFd error;
  if (options_.on_line) {
    lines_.close(options_.on_line);
    Result<ProcessLines> lines = ProcessLines::open(error);
    if (!lines) return lose(WriterLoss::unstarted, lines.error().native);
    lines_ = *std::move(lines);
  }
  Result<WriterProcess> process = WriterProcess::spawn(program_, std::move(ends->second), std::move(error));
  if (!process) return lose(WriterLoss::unstarted, process.error().native);
  process_.emplace(*std::move(process));
  stats_.pid = process_->pid();
  channel_ = std::move(ends->first);
  const Result<> watched = watch(channel_.fd(), EPOLLIN, EPOLL_CTL_ADD);
  const Result<> held = watch(process_->pidfd(), EPOLLIN, EPOLL_CTL_ADD);
  if (lines_.fd() >= 0 && !watch(lines_.fd(), EPOLLIN, EPOLL_CTL_ADD)) return lose(WriterLoss::unstarted, 0);
  if (!watched || !held) return lose(WriterLoss::unstarted, (watched ? held : watched).error().native);
  if (staging_.file) send_stage();
}

// The process will be gone, if it is not yet; the caller hears of it from reached().
void RemoteFiller::lose(WriterLoss why, std::int32_t detail) {
  if (!running()) return;
  commands_.clear();
  map_failures_.clear();
  copy_failures_.clear();
  checksums_.clear();
  wants_writable_ = false;
  channel_ = WriterChannel();  // Closing takes it out of events_.
  kill_at_ = ticks_ + options_.farewell_ticks;
  const bool ends_by_itself = why == WriterLoss::died || why == WriterLoss::failed;
  if (process_ && !ends_by_itself) process_->kill();
  ++stats_.losses;
  stats_.last_loss = why;
  stats_.last_detail = detail;
  loss_untold_ = true;
  const std::optional<std::uint64_t> wait = policy_.died(ticks_);
  if (wait) {
    set_state(WriterState::lost);
    restart_at_ = ticks_ + *wait;
    if (*wait == 0) retry_wait_ = options_.retry_ticks;  // The one before it lived long enough.
  } else {
    begin_quarantine();
  }
  wake_.signal();
}

void RemoteFiller::begin_quarantine() {
  set_state(WriterState::quarantined);
  restart_at_ = ticks_ + retry_wait_;
  retry_wait_ = std::min(2 * retry_wait_, options_.retry_ticks_most);
}

// Collects the process once it has ended.
void RemoteFiller::look_at_process() {
  if (!process_) return;
  const std::optional<WriterExit> ended = process_->reap();
  if (!ended) return;
  process_.reset();
  stats_.pid = 0;
  const std::int32_t how = ended->signal != 0 ? ended->signal : -1 - ended->exit_code;
  if (running()) {
    lose(WriterLoss::died, how);
  } else if (stats_.last_loss == WriterLoss::died && stats_.last_detail == 0) {
    stats_.last_detail = how;
  }
  wake_.signal();
}

void RemoteFiller::tick() {
  ++ticks_;
  if (!running() && process_ && ticks_ >= kill_at_) process_->kill();
  // The kernel holds it, and none may start beside it: who waits for the next one is told.
  if (state_ == WriterState::lost && process_ && ticks_ >= kill_at_ + options_.end_ticks) begin_quarantine();
  if (state_ == WriterState::quarantined && !process_ && options_.retry_ticks > 0 && ticks_ >= restart_at_) {
    policy_.put_on_probation(ticks_);
    set_state(WriterState::lost);
  }
  if (!running()) return;
  flush();
  ++age_ticks_;
  if (state_ == WriterState::starting) {
    if (age_ticks_ > options_.start_ticks) lose(WriterLoss::stalled, 0);
    return;
  }
  stuck_ticks_ = idle() ? 0 : stuck_ticks_ + 1;
  silent_ticks_ = ping_open_ ? silent_ticks_ + 1 : 0;
  if (stuck_ticks_ > options_.stall_ticks || silent_ticks_ > options_.stall_ticks) {
    return lose(WriterLoss::stalled, 0);
  }
  if (ping_open_) return;
  ping_open_ = true;
  commands_.push_back({.command = {.op = WriterOp::ping}, .descriptor = {}});
  flush();
}

void RemoteFiller::restart() {
  if (state_ != WriterState::quarantined) return;
  policy_.forgive();
  set_state(WriterState::lost);
  restart_at_ = ticks_;
  wake_.signal();
}

}  // namespace penstock
