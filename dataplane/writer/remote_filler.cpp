// SPDX-License-Identifier: Apache-2.0
// The service's end: commands out, answers in.
#include "dataplane/writer/remote_filler.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "dataplane/base/check.hpp"

namespace penstock {
namespace {

constexpr std::size_t failures_max = 4096;  // Of each kind, that nobody asked about.

Result<UniqueFd> periodic_timer(Nanoseconds period) {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return Error{Errc::exhausted, errno, "timerfd_create"};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const timespec every{.tv_sec = seconds.count(), .tv_nsec = (period - seconds).count()};
  const itimerspec setting{.it_interval = every, .it_value = every};
  CHECK(::timerfd_settime(timer.get(), 0, &setting, nullptr) == 0);
  return timer;
}

std::optional<Error> take_out(std::unordered_map<FenceId, Error>& failures, FenceId fence) {
  const auto found = failures.find(fence);
  if (found == failures.end()) return std::nullopt;
  return failures.extract(found).mapped();
}

Result<UniqueFd> duplicate(int fd) {
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return Error{Errc::exhausted, errno, "descriptor for the writer"};
  return own;
}

}  // namespace

Result<std::unique_ptr<RemoteFiller>> RemoteFiller::open(WriterProgram program,
                                                         const RemoteFillerOptions& options) {
  UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return Error{Errc::exhausted, errno, "epoll_create1"};
  UniqueFd timer = TRY(periodic_timer(options.tick));
  EventFd wake = TRY(EventFd::create());
  std::unique_ptr<RemoteFiller> self(
      new RemoteFiller(std::move(program), options, std::move(events), std::move(timer), std::move(wake)));
  TRY(self->watch(self->timer_.get(), EPOLLIN, EPOLL_CTL_ADD));
  TRY(self->watch(self->wake_.fd(), EPOLLIN, EPOLL_CTL_ADD));
  self->start();
  return self;
}

RemoteFiller::RemoteFiller(WriterProgram program, const RemoteFillerOptions& options, UniqueFd events,
                           UniqueFd timer, EventFd wake)
    : program_(std::move(program)),
      options_(options),
      events_(std::move(events)),
      timer_(std::move(timer)),
      wake_(std::move(wake)),
      policy_(options.restarts),
      retry_wait_(options.retry_ticks) {}

Result<> RemoteFiller::watch(int fd, std::uint32_t what, int operation) const {
  epoll_event event{.events = what, .data = {.fd = fd}};
  if (::epoll_ctl(events_.get(), operation, fd, &event) != 0)
    return Error{Errc::exhausted, errno, "epoll_ctl"};
  return {};
}

Result<> RemoteFiller::use_staging(std::span<std::byte> memory, int fd) {
  CHECK(!staging_.file && !memory.empty());
  staging_ = {.memory = memory, .file = TRY(duplicate(fd))};
  // A writer that is started later gets it first; see start().
  if (running()) send_stage();
  return {};
}

void RemoteFiller::send_stage() {
  Result<UniqueFd> file = duplicate(staging_.file.get());
  if (!file) return lose(WriterLoss::unstarted, file.error().native);
  commands_.push_back(
      {.command = {.op = WriterOp::stage, .bytes = staging_.memory.size()}, .descriptor = *std::move(file)});
}

Result<> RemoteFiller::refusal() const {
  if (state_ == WriterState::quarantined) return Error{Errc::closed, 0, "the device's writer is quarantined"};
  const bool recovering = state_ == WriterState::starting && incarnation_ > 1;
  if (state_ == WriterState::lost || recovering) return Error{Errc::device, 0, "the device's writer is lost"};
  return {};
}

Result<> RemoteFiller::refuse_when_full() const {
  TRY(refusal());
  if (raw(newest_) - raw(reached_) >= options_.queue_depth) return Error{Errc::busy, 0, "writer's queue"};
  return {};
}

Result<FenceId> RemoteFiller::queue(WriterCommand command, UniqueFd descriptor) {
  if (idle()) stuck_ticks_ = 0;
  newest_ = FenceId{raw(newest_) + 1};
  command.fence = newest_;
  commands_.push_back({.command = command, .descriptor = std::move(descriptor)});
  if (commands_.size() >= writer_commands_max) flush();
  return newest_;
}

Result<FenceId> RemoteFiller::map(FrameId frame, int fd, std::uint64_t bytes, Use use) {
  TRY(refusal());
  // An own descriptor: the frame may be destroyed before this is sent.
  UniqueFd own = TRY(duplicate(fd));
  return queue({.op = WriterOp::map, .fresh = use == Use::fill, .frame = frame, .bytes = bytes},
               std::move(own));
}

Result<FenceId> RemoteFiller::unmap(FrameId frame) {
  TRY(refusal());
  return queue({.op = WriterOp::unmap, .frame = frame});
}

Result<FenceId> RemoteFiller::copy(FrameId frame, std::uint64_t offset, std::span<const std::byte> source,
                                   const CopyConversion& conversion) {
  TRY(refuse_when_full());
  const Place place = TRY(place_of(source));
  return queue({.op = WriterOp::copy,
                .stored = conversion.stored,
                .wanted = conversion.wanted,
                .scale = conversion.scale,
                .frame = frame,
                .offset = offset,
                .source_offset = place.offset,
                .bytes = source.size(),
                .source = place.source});
}

Result<FenceId> RemoteFiller::copy_frame(FrameId to, FrameId from) {
  TRY(refuse_when_full());
  return queue({.op = WriterOp::copy_frame, .frame = to, .from = from});
}

Result<FenceId> RemoteFiller::checksum(FrameId frame) {
  TRY(refuse_when_full());
  return queue({.op = WriterOp::checksum, .frame = frame});
}

void RemoteFiller::flush() {
  if (!running()) return;
  while (!commands_.empty() && send_some()) {
  }
}

// False when it has to wait: for room, told by events_, or for the next tick.
bool RemoteFiller::send_some() {
  std::array<WriterCommand, writer_commands_max> commands;
  std::array<int, writer_commands_max> descriptors;
  std::size_t count = 0, descriptor_count = 0;
  for (const QueuedCommand& queued : commands_) {
    if (count == commands.size()) break;
    commands[count++] = queued.command;
    if (queued.descriptor) descriptors[descriptor_count++] = queued.descriptor.get();
  }
  const Result<> sent =
      channel_.send(std::span(commands).first(count), std::span(descriptors).first(descriptor_count));
  if (sent) {
    commands_.erase(commands_.begin(), commands_.begin() + static_cast<std::ptrdiff_t>(count));
    return true;
  }
  // A socket that hung up says so to take_answers.
  if (sent.error().code == Errc::busy) want_writable(true);
  return false;
}

void RemoteFiller::want_writable(bool wanted) {
  if (wants_writable_ == wanted) return;
  wants_writable_ = wanted;
  CHECK(watch(channel_.fd(), EPOLLIN | (wanted ? EPOLLOUT : 0u), EPOLL_CTL_MOD).has_value());
}

Result<FenceId> RemoteFiller::reached() {
  flush();
  std::array<epoll_event, 5> ready;
  const int count = ::epoll_wait(events_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  bool ticked = false, process = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    if (fd == timer_.get()) {
      std::uint64_t expirations = 0;
      ticked = ::read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations;
    } else if (fd == wake_.fd()) {
      wake_.consume();
    } else if (fd == lines_.fd()) {
      lines_.read(options_.on_line);
    } else {
      process = true;
    }
  }
  // What it said before its death counts: answers first.
  if (process) take_answers();
  if (process || ticked || state_ == WriterState::lost) look_at_process();
  if (ticked) tick();
  if (state_ == WriterState::lost && !loss_untold_ && !process_ && ticks_ >= restart_at_) start();
  if (loss_untold_) {
    wake_.signal();  // There is more to say, or another one to start.
    // What it had done before its end counts.
    if (std::exchange(told_, reached_) != reached_) return reached_;
    loss_untold_ = false;
  }
  TRY(refusal());
  return told_ = reached_;
}

void RemoteFiller::take_answers() {
  if (!channel_) return;
  if (wants_writable_) {
    want_writable(false);
    flush();
  }
  ReceivedAnswers received;
  while (channel_) {
    const Result<> came = channel_.receive(received);
    if (!came && (came.error().code == Errc::busy || came.error().code == Errc::exhausted)) return;
    // A hang-up alone: its process tells how it ended.
    if (!came && came.error().code == Errc::closed) return lose(WriterLoss::died, 0);
    if (!came) return lose(WriterLoss::confused, came.error().native);
    for (std::size_t i = 0; i < received.count && channel_; ++i) {
      if (!take(received.answers[i]))
        return lose(WriterLoss::confused, static_cast<int>(received.answers[i].kind));
    }
  }
}

Result<> RemoteFiller::take(const WriterAnswer& answer) {
  const Error wrong{Errc::protocol, 0, "answer of the writer"};
  const bool known = reached_ < answer.fence && answer.fence <= newest_;
  switch (answer.kind) {
    case WriterAnswerKind::ready:
      if (state_ != WriterState::starting || answer.version != writer_protocol_version) return wrong;
      take_free_bytes(answer.value);
      set_state(WriterState::ready);
      return {};
    case WriterAnswerKind::reached:
      if (!known) return wrong;
      reached_ = answer.fence;
      stuck_ticks_ = 0;
      return {};
    case WriterAnswerKind::map_failed:
      if (!known || map_failures_.size() == failures_max) return wrong;
      map_failures_[answer.fence] = Error{Errc::exhausted, answer.native, "map a frame in the writer"};
      return {};
    case WriterAnswerKind::copy_failed:
      if (!known || copy_failures_.size() == failures_max) return wrong;
      copy_failures_[answer.fence] = Error{Errc::exhausted, answer.native, "map a frame of a copy"};
      return {};
    case WriterAnswerKind::checksum:
      if (!known || answer.code > static_cast<std::uint8_t>(Errc::closed)) return wrong;
      checksums_.insert_or_assign(
          answer.fence, answer.not_taken != 0
                            ? Result<std::uint64_t>(Error{static_cast<Errc>(answer.code), answer.native,
                                                          "sum up a frame in the writer"})
                            : answer.value);
      return {};
    case WriterAnswerKind::pong:
      if (!ping_open_) return wrong;
      ping_open_ = false;
      take_free_bytes(answer.value);
      return {};
    case WriterAnswerKind::failed: lose(WriterLoss::failed, answer.native); return {};
  }
  return wrong;
}

void RemoteFiller::take_free_bytes(std::uint64_t bytes) {
  if (bytes == 0) return;  // It does not know.
  stats_.free_bytes = bytes;
  if (options_.on_free_bytes) options_.on_free_bytes(bytes);
}

std::optional<Error> RemoteFiller::take_map_failure(FenceId fence) { return take_out(map_failures_, fence); }
std::optional<Error> RemoteFiller::take_copy_failure(FenceId fence) {
  return take_out(copy_failures_, fence);
}

std::optional<Result<std::uint64_t>> RemoteFiller::take_checksum(FenceId fence) {
  const auto found = checksums_.find(fence);
  if (found == checksums_.end()) {
    // A loss forgets the sums, and the next writer's fences begin above all that it was asked for.
    if (running() && reached_ < fence) return std::nullopt;
    return Error{Errc::device, 0, "the device's writer was lost"};
  }
  return checksums_.extract(found).mapped();
}

}  // namespace penstock
